//! The tasks of a node beside running jobs: they act on all that becomes due, expires, or belonged to a node that is gone.

pub(crate) mod clock;
pub(crate) mod expiry;
pub(crate) mod external_leases;
pub(crate) mod failing;
pub(crate) mod kinds;
pub(crate) mod listener;
pub(crate) mod look_ahead;
pub(crate) mod monitor;
pub(crate) mod observation;
pub(crate) mod periodic;
pub(crate) mod pruner;
pub(crate) mod reconciler;
pub(crate) mod scheduler;
pub(crate) mod timers;
