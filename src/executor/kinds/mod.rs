//! What a node knows of the kinds that it runs: their options, whether it can run them at the moment, and what a failure of one means.

pub(crate) mod breaker;
pub(crate) mod classifier;
pub(crate) mod failure_policy;
pub(crate) mod kind;
pub(crate) mod options;
