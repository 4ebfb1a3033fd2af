//! Bare loops: the least that the database needs for the same work, with the driver alone. No deadlines, no retries, no fences, no node: everything
//! that a queue adds to this is its price.

pub(crate) mod admission;
pub(crate) mod drain;
pub(crate) mod send;
pub(crate) mod sqlite;
