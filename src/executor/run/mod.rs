//! Runs handlers: of one job, of a batch, or of jobs of a group one after the other. All of them have the same time limit, the same rollback and
//! the same ends. This folder and `handler` are the only ones that know the type of the store: a handler's transaction has it.

pub(crate) mod batch;
pub(crate) mod end;
pub(crate) mod gather;
pub(crate) mod handlers;
pub(crate) mod rollback;
pub(crate) mod timeout;
pub(crate) mod worker;
