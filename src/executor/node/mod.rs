//! What a node is and has while it runs: its queues and slots, the jobs in flight, cancellations, counted limits, and the kinds that it
//! leaves alone. Nothing here starts a task.

pub(crate) mod alone;
pub(crate) mod breaker;
pub(crate) mod cancellations;
pub(crate) mod claim_order;
pub(crate) mod ended_handlers;
pub(crate) mod gathering;
pub(crate) mod in_flight;
pub(crate) mod limits;
pub(crate) mod queue;
pub(crate) mod signals;
pub(crate) mod slots;
pub(crate) mod stats;
