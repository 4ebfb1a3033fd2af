//! What all tasks of one node session share, from its registration to its end.

pub(crate) mod group_run;
pub(crate) mod node_session;
pub(crate) mod settings;
pub(crate) mod tasks;
