//! When a draining worker is done.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jobwright::store::{JobFilter, JobState, JobStore, Page};
use jobwright::{AnyStore, CommandExecutor};

use super::blocked::{Held, held};
use crate::failure::Failure;

/// For how long nothing must change about jobs that are blocked before they count as left: what holds them may be about to end.
const PATIENCE: Duration = Duration::from_secs(1);

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
    /// Jobs that it could run, and something else than a rate holds them back. The text says what.
    Blocked(Held, String),
}

/// Returns when nothing waits, runs (anywhere: it may fail and come back), is in the hands of external workers or is due in these
/// queues. A row that is held for its delivery waits as well; a delivery that is still in the broker then is stale, and means nothing. What a dead node still
/// owns counts as running. Timers that are due later are left to another time; what a rate holds back is waited for.
///
/// # Errors
/// [`Failure::Left`] when only jobs are left that are blocked by what does not end by itself.
pub(super) async fn drained(
    executor: &CommandExecutor<AnyStore>,
    jobs: &Arc<dyn JobStore>,
    scope: &Scope,
) -> Result<(), Failure> {
    let mut pause = Duration::from_millis(20);
    let mut foreign_before = false;
    let mut blocked: Option<(Instant, Held)> = None;
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
                Ok(Look::Blocked(held, why)) => match blocked.take() {
                    Some((since, before)) if before == held && since.elapsed() >= PATIENCE => {
                        return Err(Failure::Left(why));
                    }
                    Some((since, before)) if before == held => blocked = Some((since, held)),
                    _ => blocked = Some((Instant::now(), held)),
                },
                Ok(look) => {
                    foreign_before = matches!(look, Look::Foreign(_));
                    blocked = None;
                }
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
    let (mut open, mut outbound, mut blocked, mut overdue, mut later) = (0, 0, 0, 0, 0);
    for queue in &status.queues {
        let count = queue.waiting + queue.running + queue.external;
        if scope.outbound.contains(&queue.queue) {
            outbound += count;
        } else if scope.queues.contains(&queue.queue) {
            open += count;
        } else {
            continue;
        }
        blocked += queue.blocked;
        overdue += queue.overdue;
        later += queue.timer;
    }
    if overdue > 0 || outbound > 0 {
        return Ok(Look::Busy);
    }
    if open == 0 && blocked == 0 {
        return Ok(Look::Empty { later });
    }
    for queue in &scope.queues {
        for kind in &scope.kinds {
            let filter = JobFilter::default()
                .states(vec![JobState::Waiting, JobState::Running])
                .queue(queue.clone())
                .kind(kind.clone());
            if !jobs.list(&filter, &Page::new(1)).await?.is_empty() {
                return Ok(Look::Busy);
            }
        }
    }
    // A gate that has opened: the executor is about to look behind it.
    if blocked > 0 && jobs.overdue_openings().await?.openings > 0 {
        return Ok(Look::Busy);
    }
    if blocked > 0
        && let Some(held) = held(jobs, scope).await?
    {
        let rules = jobs.rules().await?;
        let why = held.describe(&rules);
        return Ok(if held.comes_by_itself(&rules) { Look::Busy } else { Look::Blocked(held, why) });
    }
    Ok(Look::Foreign(open + blocked))
}

#[cfg(test)]
mod tests {
    use std::slice;

    use jobwright::{Config, DatabaseConfig, Fence, HandOutNumber, MessageServices, NewJob};

    use super::*;

    /// A database without any worker, so that nothing moves while it is looked at, and what one would be told to run.
    async fn place() -> (tempfile::TempDir, MessageServices<AnyStore>, Scope) {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", directory.path().join("jobs.db").display());
        let config = Config::new(DatabaseConfig::url(url));
        let messages = MessageServices::connect(&config).await.unwrap();
        let names = |name: &str| BTreeSet::from([name.to_owned()]);
        let scope = Scope { queues: names("default"), outbound: names("partner"), kinds: names("ours") };
        (directory, messages, scope)
    }

    /// Nobody has moved it yet, and then it is what the worker was started for.
    #[tokio::test]
    async fn a_timer_that_is_due_is_work() {
        let (_directory, messages, scope) = place().await;
        let jobs = messages.jobs();
        let job = |delay| NewJob::json("ours", &1).delay(delay);
        messages.send(job(Duration::from_secs(3600))).await.unwrap();
        assert!(matches!(look(jobs, &scope).await.unwrap(), Look::Empty { later: 1 }));
        messages.send(job(Duration::from_millis(1))).await.unwrap();
        let begun = Instant::now();
        while jobs.status().await.unwrap().queues[0].overdue == 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "it never came due");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(matches!(look(jobs, &scope).await.unwrap(), Look::Busy));
    }

    /// It may fail there and come back, to be handed out again.
    #[tokio::test]
    async fn what_an_external_worker_has_is_not_over() {
        let (_directory, messages, scope) = place().await;
        let jobs = messages.jobs();
        messages.send(NewJob::json("theirs", &1).queue("partner")).await.unwrap();
        let lease = Duration::from_secs(3600);
        let out = jobs.hand_out("partner", 10, lease, HandOutNumber::new(1)).await.unwrap();
        assert_eq!(out.len(), 1);
        assert!(matches!(look(jobs, &scope).await.unwrap(), Look::Busy));
        let done = jobwright::store::ExternalDone { fence: Fence::new(out[0].id, out[0].version), result: None };
        assert_eq!(jobs.complete_external(slice::from_ref(&done)).await.unwrap().ids.len(), 1);
        assert!(matches!(look(jobs, &scope).await.unwrap(), Look::Empty { later: 0 }));
    }
}
