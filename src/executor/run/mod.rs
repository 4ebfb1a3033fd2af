//! Runs handlers: of one job, of a batch, or of jobs of a group one after the other.

pub(crate) mod batch;
pub(crate) mod gather;
pub(crate) mod group_claimer;
pub(crate) mod group_runner;
pub(crate) mod start;
pub(crate) mod worker;
