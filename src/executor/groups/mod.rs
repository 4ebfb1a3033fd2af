//! Groups and limits.

pub(crate) mod admission;
pub(crate) mod claimer;
pub(crate) mod follow;
pub(crate) mod runner;
pub(crate) mod usage_reporter;
