//! Claims that count the limits of queues and kinds.

use std::sync::Arc;

use tokio::sync::MutexGuard;

use crate::executor::node::limits::{Limit, Running};
use crate::job::Job;
use crate::store::{Allowed, Counted};

/// The turn of a claim under the limits that it counts. No other claim of this node under one of them begins until this is dropped, which must
/// not be before the jobs that the claim took are counted as running.
pub(crate) struct CountingTurn<'a> {
    limits: &'a [Arc<Limit>],
    _turns: Vec<MutexGuard<'a, ()>>,
}

impl<'a> CountingTurn<'a> {
    /// Waits for the turn. All claims name the limit of their queue before that of their kind, so that none waits for another in a circle.
    pub(crate) async fn begin(limits: &'a [Arc<Limit>]) -> Self {
        let mut turns = Vec::with_capacity(limits.len());
        for limit in limits {
            turns.push(limit.claiming.lock().await);
        }
        Self { limits, _turns: turns }
    }

    /// Returns what this node runs under each limit.
    pub(crate) fn counts(&self) -> Vec<Counted<'a>> {
        self.limits.iter().map(|limit| limit.counted()).collect()
    }

    /// Notes what the claim has written: these counts, and `took` jobs more.
    pub(crate) fn written(&self, counts: &[Counted<'_>], allowed: &Allowed, took: usize) {
        for (place, (limit, said)) in self.limits.iter().zip(counts).enumerate() {
            let again = allowed.recount.contains(&place);
            if again {
                limit.restart_count();
            }
            if allowed.written {
                limit.reported(if again { 0 } else { said.running }, took);
            }
        }
    }

    /// Counts a job that the claim took as running, unless it was admitted: then it has permits.
    pub(crate) fn running(&self, job: &Job) -> Option<Running> {
        (!self.limits.is_empty() && !job.admitted).then(|| Running::new(self.limits))
    }

    /// Notes that the claim got no answer. It may have counted more jobs than it took, and it may still run: so another claim has to follow.
    pub(crate) fn owe_a_claim(&self) {
        for limit in self.limits {
            limit.owe();
        }
    }
}
