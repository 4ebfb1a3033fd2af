//! Claims jobs from the table for the free slots.

pub(crate) mod dispatcher;
pub(crate) mod handoff;
mod in_vain;
mod kind_set;
mod pace;
mod ready;
pub(crate) mod scan;
pub(crate) mod suspects;
