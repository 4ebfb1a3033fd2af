//! Decides when a draining worker is done.

use std::time::{Duration, Instant};

use jobwright::admin::Admin;
use jobwright::admin::{Count, HeldUp, JobFilter, JobState, Page, Reason};
use jobwright::{AnyStore, CommandExecutor};

use super::blocked::{Blockers, Scope, blockers};
use crate::failure::Failure;

/// How long blocked jobs must stay unchanged before they count as left: the job that holds their permit may be about to end.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long this worker must have been unable to run a kind before its jobs count as left: its program may be about to be replaced.
const LEFT_ALONE: Duration = Duration::from_secs(5);

/// The result of one check of the database.
enum DrainState {
    /// There is work.
    Busy,
    /// No work, but perhaps timers that are due later.
    Empty { later: Count },
    /// Only jobs of kinds that this worker can't run.
    Foreign(Count),
    /// Jobs that it could run, but that something other than a rate blocks, or that a rule does not let start.
    Blocked(Held),
}

/// Jobs that are held, and the texts that say by what.
#[derive(PartialEq, Eq)]
struct Held {
    blockers: Option<Blockers>,
    why: Vec<String>,
}

/// Returns when no job of these queues waits, runs, is handed out to an external worker, or is due. A job that runs on another node counts,
/// because it may fail and come back, and so does a job that a dead node still owns. A row that is hidden for its delivery counts as
/// waiting; a delivery that is still in the broker afterwards is stale, and does not matter. Timers that are due later are left for another
/// run. Jobs that wait for a rate are waited for.
///
/// # Errors
/// [`Failure::Left`] when only jobs are left whose block does not end by itself, or of kinds that this worker can't run although it should.
pub(super) async fn drained(executor: &CommandExecutor<AnyStore>, admin: &Admin, scope: &Scope) -> Result<(), Failure> {
    let mut pause = Duration::from_millis(20);
    let mut foreign_before = false;
    let mut blocked: Option<(Instant, Held)> = None;
    loop {
        // The counts cost statements, so they wait until this process has nothing in flight.
        if executor.stats().in_flight == 0 {
            let (able, why) = able(executor, scope);
            match look(admin, &able).await {
                Ok(DrainState::Empty { later: Count::Exact(0) }) => return Ok(()),
                Ok(DrainState::Empty { later }) => {
                    tracing::info!(
                        jobs = %later,
                        "not run: they are not due yet (delayed jobs or retries)"
                    );
                    return Ok(());
                }
                // Checked twice: while the kinds are checked one by one, a job of one kind may send a job of another.
                Ok(DrainState::Foreign(n)) if foreign_before && why.is_some() => {
                    return Err(Failure::Left(format!("{n} left: {}", why.unwrap_or_default())));
                }
                Ok(DrainState::Foreign(n)) if foreign_before => {
                    tracing::warn!(jobs = %n, "left alone: no handler is configured here for their kinds");
                    return Ok(());
                }
                Ok(DrainState::Blocked(held)) => match blocked.take() {
                    Some((since, before)) if before == held && since.elapsed() >= PATIENCE => {
                        return Err(Failure::Left(held.why.join("; ")));
                    }
                    Some((since, before)) if before == held => blocked = Some((since, held)),
                    _ => blocked = Some((Instant::now(), held)),
                },
                Ok(look) => {
                    foreign_before = matches!(look, DrainState::Foreign(_));
                    blocked = None;
                }
                Err(error) if error.is_retryable() => {
                    tracing::warn!(%error, "could not check whether work is left; trying again");
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

/// Returns what of this scope the worker can run, and why it can't run the rest.
fn able(executor: &CommandExecutor<AnyStore>, scope: &Scope) -> (Scope, Option<String>) {
    let mut able = scope.clone();
    let mut why = Vec::new();
    for (kind, (reason, since)) in executor.left_alone() {
        if since.elapsed() >= LEFT_ALONE && able.kinds.remove(&kind) {
            why.push(format!("this worker can't run jobs of kind {kind:?} ({reason})"));
        }
    }
    (able, (!why.is_empty()).then(|| why.join("; ")))
}

async fn look(admin: &Admin, scope: &Scope) -> jobwright::Result<DrainState> {
    let status = admin.status().await?;
    let [mut open, mut outbound, mut blocked, mut overdue, mut later] = [Count::default(); 5];
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
    // A count that is not exact is of more than that.
    if overdue != 0 || outbound != 0 {
        return Ok(DrainState::Busy);
    }
    if open == 0 && blocked == 0 {
        return Ok(DrainState::Empty { later });
    }
    let Some(mut why) = held(admin, scope).await? else { return Ok(DrainState::Busy) };
    // A key was unblocked, and the executor is about to admit its jobs.
    if blocked != 0 && admin.overdue_unblocks().await?.unblocks != 0 {
        return Ok(DrainState::Busy);
    }
    let blockers = if blocked != 0 { blockers(admin, scope).await? } else { None };
    if let Some(blockers) = &blockers {
        let rules = admin.rules().await?;
        if blockers.comes_by_itself(&rules) {
            return Ok(DrainState::Busy);
        }
        why.push(blockers.describe(&rules));
    }
    if !why.is_empty() {
        return Ok(DrainState::Blocked(Held { blockers, why }));
    }
    Ok(DrainState::Foreign(open + blocked))
}

/// Describes the waiting jobs of this scope that a rule keeps from starting until a person changes it. `None`: some can start, or run.
async fn held(admin: &Admin, scope: &Scope) -> jobwright::Result<Option<Vec<String>>> {
    let mut why = Vec::new();
    let holds = |reason: &&Reason| matches!(reason, Reason::Paused { .. } | Reason::Limit { most: 0, .. });
    for (queue, kind) in scope.queues.iter().flat_map(|queue| scope.kinds.iter().map(move |kind| (queue, kind))) {
        let of_kind = |state| JobFilter::state(state).queue(queue.clone()).kind(kind.clone());
        if !admin.list(&of_kind(JobState::Running), &Page::new(1)).await?.is_empty() {
            return Ok(None);
        }
        if admin.list(&of_kind(JobState::Waiting), &Page::new(1)).await?.is_empty() {
            continue;
        }
        let classes = admin.why_waiting(Some(queue), Some(kind)).await?;
        let waiting: Vec<_> = classes.iter().filter(|held| held.example.state == JobState::Waiting).collect();
        // Without one, the example of a class has just gone on, and the next look finds another.
        if waiting.is_empty() {
            return Ok(None);
        }
        for HeldUp { jobs, example, .. } in waiting {
            match example.reasons.iter().find(holds) {
                Some(reason) => why.push(format!("{jobs} left: {reason}")),
                None => return Ok(None),
            }
        }
    }
    Ok(Some(why))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::slice;

    use jobwright::internal::{Fence, HandOutNumber};
    use jobwright::{Config, DatabaseConfig, MessageServices, NewJob};

    use super::*;

    /// A database without a worker, so that nothing changes during a check, and the scope a worker would have.
    async fn place() -> (tempfile::TempDir, MessageServices<AnyStore>, Scope) {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", directory.path().join("jobs.db").display());
        let config = Config::new(DatabaseConfig::url(url));
        let messages = MessageServices::connect(&config).await.unwrap();
        let names = |name: &str| BTreeSet::from([name.to_owned()]);
        let scope = Scope { queues: names("default"), outbound: names("partner"), kinds: names("ours") };
        (directory, messages, scope)
    }

    /// No executor has moved it yet, and the worker was started for such jobs.
    #[tokio::test]
    async fn a_timer_that_is_due_is_work() {
        let (_directory, messages, scope) = place().await;
        let admin = &messages.admin();
        let job = |delay| NewJob::json("ours", &1).delay(delay);
        messages.send(job(Duration::from_secs(3600))).await.unwrap();
        assert!(matches!(look(admin, &scope).await.unwrap(), DrainState::Empty { later: Count::Exact(1) }));
        messages.send(job(Duration::from_millis(1))).await.unwrap();
        let begun = Instant::now();
        while admin.status().await.unwrap().queues[0].overdue == 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "it never came due");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(matches!(look(admin, &scope).await.unwrap(), DrainState::Busy));
    }

    /// It may fail there and come back, to be handed out again.
    #[tokio::test]
    async fn a_handed_out_job_counts_as_work() {
        let (_directory, messages, scope) = place().await;
        let (admin, jobs) = (&messages.admin(), messages.engine());
        messages.send(NewJob::json("theirs", &1).queue("partner")).await.unwrap();
        let lease = Duration::from_secs(3600);
        let out = jobs.hand_out("partner", 10, lease, HandOutNumber::new(1)).await.unwrap();
        assert_eq!(out.len(), 1);
        assert!(matches!(look(admin, &scope).await.unwrap(), DrainState::Busy));
        let done =
            jobwright::internal::engine::ExternalDone { fence: Fence::new(out[0].id, out[0].version), result: None };
        assert_eq!(jobs.complete_external(slice::from_ref(&done)).await.unwrap().ids.len(), 1);
        assert!(matches!(look(admin, &scope).await.unwrap(), DrainState::Empty { later: Count::Exact(0) }));
    }
}
