//! All roles together.

use std::fmt;

use super::{
    Acquire, Diagnose, Enqueue, External, Hints, Inspect, Leases, Maintenance, Operate, Outcomes, Progress, Prune,
    Recovery, Schedules, Schema, StoreInfo,
};

/// All roles of a database. It is implemented for whatever has them.
pub trait JobStore:
    StoreInfo
    + Schema
    + Enqueue
    + Hints
    + Acquire
    + Outcomes
    + Progress
    + Leases
    + Recovery
    + Maintenance
    + Prune
    + External
    + Schedules
    + Inspect
    + Operate
    + Diagnose
    + fmt::Debug
    + 'static
{
}

impl<T> JobStore for T where
    T: StoreInfo
        + Schema
        + Enqueue
        + Hints
        + Acquire
        + Outcomes
        + Progress
        + Leases
        + Recovery
        + Maintenance
        + Prune
        + External
        + Schedules
        + Inspect
        + Operate
        + Diagnose
        + fmt::Debug
        + 'static
{
}
