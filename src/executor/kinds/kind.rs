//! The kinds that this process can run.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::executor::kinds::breaker::Breaker;
use crate::executor::kinds::options::KindOptions;
use crate::executor::metrics::attempts::KindMetrics;

/// A kind of job that this process can run.
pub(crate) struct Kind {
    pub(crate) options: KindOptions,
    /// Bounds how many run at the same time, if the kind has its own limit.
    pub(crate) slots: Option<Arc<Semaphore>>,
    /// Whether this node can run it at the moment.
    pub(crate) breaker: Arc<Breaker>,
    /// Whether its jobs are run in batches.
    pub(crate) is_batched: bool,
    pub(crate) metrics: KindMetrics,
}

/// All kinds, by each of their names.
pub(crate) type Kinds = HashMap<String, Arc<Kind>>;

/// Returns the kinds that may run in the slot of another job: those without a limit on this node and without a batch to wait for.
pub(crate) fn chainable_kinds(kinds: &Kinds) -> Vec<String> {
    let may_follow = |kind: &Kind| kind.slots.is_none() && !kind.is_batched;
    kinds.iter().filter(|(_, kind)| may_follow(kind)).map(|(name, _)| name.clone()).collect()
}
