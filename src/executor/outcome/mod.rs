//! What the end of an attempt means, and its record.

pub(crate) mod completer;
pub(crate) mod completion;
pub(crate) mod failure_policy;
pub(crate) mod group_run;
pub(crate) mod held;
pub(crate) mod kept;
pub(crate) mod recording;
pub(crate) mod unrecorded;
pub(crate) mod waiting;
