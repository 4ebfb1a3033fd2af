//! The life of a node, from its registration to its end, and the next one.

pub(crate) mod drain;
pub(crate) mod heartbeat;
pub(crate) mod helpers;
pub(crate) mod session;
pub(crate) mod settings;
pub(crate) mod supervise;
pub(crate) mod unrecorded;
pub(crate) mod vitals;
