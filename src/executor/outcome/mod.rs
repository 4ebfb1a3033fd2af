//! The record of what became of each attempt.

pub(crate) mod completer;
pub(crate) mod held;
pub(crate) mod kept;
pub(crate) mod recording;
pub(crate) mod waiting;
