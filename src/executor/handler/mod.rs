//! What a program registers: handlers, commands, middleware, batches, and what a handler gets.

pub(crate) mod batch;
pub(crate) mod command;
pub(crate) mod external_queue;
pub(crate) mod job_context;
pub(crate) mod middleware;
pub(crate) mod progress;
pub(crate) mod registry;
pub(crate) mod single;
