//! All roles together.

use std::fmt;

use super::{
    Acquire, Diagnose, Enqueue, External, Hints, Inspect, Leases, Maintenance, Operate, Outcomes, Progress, Prune,
    Recovery, Schedules, Schema, StoreInfo,
};

/// Makes the trait of these roles, and implements it for whatever has them.
macro_rules! all {
    ($($role:ident),+) => {
        /// All roles of a database. It is implemented for whatever has them.
        pub trait JobStore: $($role +)+ fmt::Debug + 'static {}

        impl<T: $($role +)+ fmt::Debug + 'static> JobStore for T {}
    };
}

all!(
    StoreInfo,
    Schema,
    Enqueue,
    Hints,
    Acquire,
    Outcomes,
    Progress,
    Leases,
    Recovery,
    Maintenance,
    Prune,
    External,
    Schedules,
    Inspect,
    Operate,
    Diagnose
);
