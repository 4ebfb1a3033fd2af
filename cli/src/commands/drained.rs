//! When a draining worker is done.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jobwright::store::{JobFilter, JobState, JobStore, Page};
use jobwright::{AnyStore, CommandExecutor};

use crate::failure::Failure;

/// What a worker can run.
pub(super) struct Scope {
    pub(super) queues: BTreeSet<String>,
    /// Queues that are sent to the broker: those of external workers, events and replies. Their kinds mean nothing here.
    pub(super) outbound: BTreeSet<String>,
    pub(super) kinds: BTreeSet<String>,
}

/// How a look at the database ended.
enum Look {
    /// There is work.
    Busy,
    /// Nothing, but maybe timers that are due later.
    Empty { later: u64 },
    /// Only jobs of kinds that this worker can't run.
    Foreign(u64),
}

/// Returns when nothing waits, runs (anywhere: it may fail and come back), is in the hands of external workers or is due in these
/// queues. A row that is held for its delivery waits as well; a delivery that is still in the broker then is stale, and means nothing. What a dead node still
/// owns counts as running. Timers that are due later are left to another time.
pub(super) async fn drained(
    executor: &CommandExecutor<AnyStore>,
    jobs: &Arc<dyn JobStore>,
    scope: &Scope,
) -> Result<(), Failure> {
    let mut pause = Duration::from_millis(20);
    let mut foreign_before = false;
    loop {
        // The counts cost a pass over the tables, so they wait until this process has nothing in hand.
        if executor.stats().in_flight == 0 {
            match look(jobs, scope).await {
                Ok(Look::Empty { later: 0 }) => return Ok(()),
                Ok(Look::Empty { later }) => {
                    tracing::info!(
                        jobs = later,
                        "left for later: they are not due yet (new ones, or between two attempts)"
                    );
                    return Ok(());
                }
                // Twice: while kind after kind is looked at, a job of one may send a job of another.
                Ok(Look::Foreign(n)) if foreign_before => {
                    tracing::warn!(jobs = n, "left alone: no handler is configured here for their kinds");
                    return Ok(());
                }
                Ok(look) => foreign_before = matches!(look, Look::Foreign(_)),
                Err(error) if error.is_retryable() => {
                    tracing::warn!(%error, "could not see whether there is work left; trying again");
                }
                Err(error) => return Err(error.into()),
            }
            pause = (pause * 2).min(Duration::from_millis(500));
        } else {
            pause = Duration::from_millis(20);
        }
        tokio::time::sleep(pause).await;
    }
}

async fn look(jobs: &Arc<dyn JobStore>, scope: &Scope) -> jobwright::Result<Look> {
    let status = jobs.status().await?;
    let (mut open, mut outbound, mut overdue, mut later) = (0, 0, 0, 0);
    for queue in &status.queues {
        let count = queue.waiting + queue.running + queue.external;
        if scope.outbound.contains(&queue.queue) {
            outbound += count;
        } else if scope.queues.contains(&queue.queue) {
            open += count;
        } else {
            continue;
        }
        overdue += queue.overdue;
        later += queue.timer;
    }
    if overdue > 0 || outbound > 0 {
        return Ok(Look::Busy);
    }
    if open == 0 {
        return Ok(Look::Empty { later });
    }
    for queue in &scope.queues {
        for kind in &scope.kinds {
            let filter = JobFilter {
                ids: None,
                states: Some(vec![JobState::Waiting, JobState::Running]),
                queue: Some(queue.clone()),
                kind: Some(kind.clone()),
                ..JobFilter::default()
            };
            if !jobs.list(&filter, &Page { limit: 1, after: None }).await?.is_empty() {
                return Ok(Look::Busy);
            }
        }
    }
    Ok(Look::Foreign(open))
}
