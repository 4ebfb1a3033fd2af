//! Runs suspects alone: jobs whose process died while they ran.
//!
//! The death of a process says only that one of the jobs that ran in it may have killed it. Each of them is a suspect from then on
//! ([`release_lost`](crate::store::Nodes::release_lost)), and runs alone in its process. Then another death is a proof, and an innocent
//! suspect ends like any other job.
//!
//! ```text
//!  suspects wait ──▶ claim no more ──▶ nothing runs any more ──▶ claim one suspect, run it ──▶ next one, for a second ──▶ claim as before
//!                                      (or, after a minute, the node gives up: it is for another node, or for later)       for as long
//! ```
//!
//! Other jobs get about half of the node's time, also while there are many suspects. Two bounds keep a suspect from being in the way, or from
//! waiting for ever: after two minutes of its run other jobs start beside it, and if no node could run one alone for ten minutes, because their
//! jobs take hours, they wait like any other job. Either way they are acquitted first: their death is held against nobody then.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::backoff::{Reconnect, jitter};
use crate::error::{Result, warn_of};
use crate::executor::dispatch::in_vain::InVain;
use crate::executor::groups::counting::CountingTurn;
use crate::executor::metrics::stats::add;
use crate::executor::node::Node;
use crate::executor::node::alone::{self, Alone};
use crate::executor::node::limits::{Limit, Running};
use crate::executor::node::queue::Queue;
use crate::job::{EVENT_QUEUE, Job, JobId, REPLY_QUEUE};
use crate::store::{Acquitted, ClaimRequest, Hint, Scope, Suspect};

/// Its failure, for the log and for the node's row.
const FAILED: &str = "suspects could not be run";
/// How many suspects are read at once.
const LOOKED_AT: usize = 100;
/// How long other jobs may run on before this node gives up for now.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long short suspects follow one another before other jobs may start.
const TURN: Duration = Duration::from_secs(1);
/// The least time for other jobs after that.
const SHORT_REST: Duration = Duration::from_millis(200);
/// The longest time for other jobs. A suspect that runs for an hour is followed by others soon enough.
const LONG_REST: Duration = Duration::from_secs(120);
/// How long a suspect waits for slots that are held for a claim.
const SLOTS: Duration = Duration::from_millis(100);
/// How long a suspect has the process for itself.
const ALONE: Duration = Duration::from_secs(120);
/// How often the store is asked to acquit a suspect whose row is locked.
const AGAIN: Duration = Duration::from_secs(1);
/// After how many tries other jobs start beside it all the same: no row and no outage keeps a process from its work.
const TRIES: u32 = 10;

/// Runs suspects until the node stops claiming.
pub(crate) async fn run(node: Arc<Node>) {
    let stop = node.stop_claiming.clone();
    let suspects = Suspects { node, in_vain: InVain::default() };
    tokio::select! {
        () = stop.cancelled() => {}
        () = suspects.work() => {}
    }
}

struct Suspects {
    node: Arc<Node>,
    in_vain: InVain,
}

impl Suspects {
    async fn work(mut self) {
        let mut delays = Reconnect::new(Duration::from_secs(5));
        let mut state = self.node.failing.task("suspects", None, FAILED);
        loop {
            self.node.signals.suspects.notified().await;
            while let Err(error) = self.turn().await {
                warn_of!(error, "{FAILED}; trying again");
                state.failed(&error);
                self.node.claim_failed(&error);
                tokio::time::sleep(delays.next_delay()).await;
            }
            delays.reset();
            state.succeeded();
        }
    }

    /// Runs suspects until none is left that this node can run now.
    async fn turn(&mut self) -> Result<()> {
        let handed_out = self.handed_out().await?;
        self.acquit(&handed_out).await?;
        loop {
            let mut found = self.found().await?;
            if found.is_empty() {
                return Ok(());
            }
            if alone::is_busy() {
                // An idle node comes first.
                tokio::time::sleep(jitter(self.node.poll_interval)).await;
                found = self.found().await?;
                if found.is_empty() {
                    return Ok(());
                }
            }
            let began = Instant::now();
            let ran = self.run_some(&found, began).await;
            if ran.is_err() {
                self.in_vain.add(&found, began);
            }
            let acquitted = self.acquit_waiting_in_vain().await;
            // Also after an error: claims that keep failing must not keep the process from other jobs.
            self.rest(began.elapsed()).await;
            let ran = ran?;
            acquitted?;
            if !ran {
                // The next poll finds those that are left.
                return Ok(());
            }
        }
    }

    /// Returns the suspects that this node may run alone now. Those that need permits are acquitted.
    async fn found(&mut self) -> Result<Vec<Suspect>> {
        let queues: Vec<String> = self.node.queues.keys().cloned().collect();
        let able = self.node.kinds.iter().filter(|(_, kind)| !kind.breaker.is_open());
        let kinds: Vec<String> = able.map(|(name, _)| name.clone()).collect();
        let mut found = self.node.store.suspects(&queues, Some(&kinds), LOOKED_AT).await?;
        self.in_vain.look(&found);
        let permits: Vec<JobId> = found.extract_if(.., |one| one.needs_permits).map(|one| one.id).collect();
        self.acquit(&permits).await?;
        Ok(found)
    }

    /// Acquits those that waited in vain for too long.
    async fn acquit_waiting_in_vain(&mut self) -> Result<()> {
        if !self.in_vain.too_long(Instant::now()).is_empty() {
            // By now another node may run one of them.
            self.found().await?;
        }
        let over = self.in_vain.too_long(Instant::now());
        self.acquit(&over).await
    }

    /// Returns suspects in queues whose jobs leave this program: no handler runs them any more, and only ordinary jobs are handed out.
    async fn handed_out(&self) -> Result<Vec<JobId>> {
        let queues: Vec<String> = self
            .node
            .queue_wakeups
            .keys()
            .filter(|queue| ![EVENT_QUEUE, REPLY_QUEUE].contains(&queue.as_str()))
            .cloned()
            .collect();
        if queues.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.node.store.suspects(&queues, None, LOOKED_AT).await?;
        Ok(found.into_iter().map(|suspect| suspect.id).collect())
    }

    /// Runs suspects one after the other while nothing else runs. Returns whether any ran.
    async fn run_some(&mut self, found: &[Suspect], began: Instant) -> Result<bool> {
        let now = Instant::now();
        let Some(alone) = Alone::begin(PATIENCE).await else {
            self.in_vain.add(found, now);
            return Ok(false);
        };
        let (mut alone, mut ran) = (Some(alone), false);
        let mut none_of: Vec<(&str, &str)> = Vec::new();
        for suspect in found {
            let Suspect { queue, kind, .. } = suspect;
            if !none_of.contains(&(queue.as_str(), kind.as_str())) {
                // Before the claim: if this node stops, no job that was claimed may be left between the two.
                let of_kind = self.node.kinds.get(kind).and_then(|kind| kind.slots.as_ref());
                let slots = slots(self.node.queues.get(queue), of_kind).await;
                if let Some(slots) = slots
                    && let Some((job, running)) = self.claim(queue, kind).await?
                {
                    ran = true;
                    // The others have their turn later.
                    self.in_vain.clear();
                    alone = match alone {
                        Some(alone) => self.run_alone(alone, job, slots, running).await,
                        None => None,
                    };
                    if alone.is_none() || began.elapsed() >= TURN {
                        break;
                    }
                    continue;
                }
                none_of.push((queue, kind));
            }
            self.in_vain.add([suspect], now);
        }
        Ok(ran)
    }

    /// Claims the best suspect of a queue and kind. `None`: none may start, or another node was faster.
    async fn claim(&self, queue: &str, kind: &str) -> Result<Option<(Job, Option<Running>)>> {
        let node = &self.node;
        let limit = |scope, name| node.limits.of(scope, name, &node.queues);
        // In the order in which dispatchers lock them.
        let counted: Vec<Arc<Limit>> =
            [limit(Scope::Queue, queue), limit(Scope::Kind, kind)].into_iter().flatten().collect();
        let turn = CountingTurn::begin(&counted).await;
        let counts = turn.counts();
        let kinds = [kind.to_owned()];
        let claim = node.in_flight.begin_claim().await;
        let request = ClaimRequest::new(node.id, claim.number(), queue, 1).kinds(&kinds).counted(&counts).suspects();
        let claimed = node.store.claim(&request).await.inspect_err(|error| {
            if !error.kept_nothing() {
                turn.owe_a_claim();
            }
        })?;
        node.in_flight.add(claimed.jobs.iter());
        drop(claim);
        add(&node.counters.claimed, claimed.jobs.len());
        if let Some(allowed) = &claimed.allowed {
            turn.written(&counts, allowed, claimed.jobs.iter().filter(|job| !job.admitted).count());
        }
        Ok(claimed.jobs.into_iter().next().map(|job| {
            let running = turn.running(&job);
            (job, running)
        }))
    }

    /// Runs a job. Nothing else starts before its end, or before its time alone is over. If this future is dropped meanwhile, because the node
    /// stops, that is still so.
    async fn run_alone(
        &self,
        alone: Alone,
        job: Job,
        (slot, kind_slot): HeldSlots,
        running: Option<Running>,
    ) -> Option<Alone> {
        let (id, store) = (job.id, self.node.store.clone());
        tracing::info!(%id, kind = job.kind, queue = job.queue, attempt = job.attempt, "runs alone: its process died while it ran before");
        self.node.start(job, slot, kind_slot, running);
        let over = tokio::spawn(async move {
            let acquit = || {
                let store = store.clone();
                async move { store.acquit(&[id]).await }
            };
            let to_its_end = to_its_end(id, alone.ended(), acquit).await;
            to_its_end.then_some(alone)
        });
        over.await.ok().flatten()
    }

    /// Makes suspects wait like any other job.
    async fn acquit(&mut self, ids: &[JobId]) -> Result<()> {
        if !ids.is_empty() {
            tracing::warn!(
                ?ids,
                "these jobs can't be run alone, although their process died while they ran; they run beside others now"
            );
            let acquitted = self.node.store.acquit(ids).await?;
            self.in_vain.remove(ids);
            self.node.wakeup.notify(acquitted.queues.into_iter().map(Hint::Rescan));
        }
        Ok(())
    }

    /// Leaves the node to other jobs for as long as it was kept from them, unless there are none.
    async fn rest(&self, closed: Duration) {
        let until = Instant::now() + closed.clamp(SHORT_REST, LONG_REST);
        loop {
            tokio::time::sleep(SHORT_REST).await;
            if Instant::now() >= until || !alone::is_busy() {
                return;
            }
        }
    }
}

/// A slot of a queue, and one of a kind that has a limit.
type HeldSlots = (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>);

/// Takes a slot of the queue and of the kind, because other jobs may start beside a suspect that takes long. Nothing runs now, so all slots are
/// free but for those that are held for a claim, which can't begin and gives them back. If they are held for long, a suspect has slots of its own.
async fn slots(queue: Option<&Arc<Queue>>, kind: Option<&Arc<Semaphore>>) -> Option<HeldSlots> {
    let of_queue = async { queue?.take(1).await };
    let of_kind = async { kind?.clone().acquire_owned().await.ok() };
    let (of_queue, of_kind) = tokio::join!(tokio::time::timeout(SLOTS, of_queue), tokio::time::timeout(SLOTS, of_kind));
    let slot = of_queue.ok().flatten().or_else(|| Arc::new(Semaphore::new(1)).try_acquire_owned().ok())?;
    Some((slot, of_kind.ok().flatten()))
}

/// Waits until nothing runs any more, or until other jobs may start beside a suspect that takes long. Returns whether it had the process for
/// itself to its end.
async fn to_its_end<F: Future<Output = Result<Acquitted>>>(
    id: JobId,
    ended: impl Future<Output = ()>,
    acquit: impl Fn() -> F,
) -> bool {
    let mut ended = pin!(ended);
    let mut patience = ALONE;
    for _ in 0..TRIES {
        if tokio::time::timeout(patience, ended.as_mut()).await.is_ok() {
            return true;
        }
        patience = AGAIN;
        match acquit().await {
            Ok(acquitted) if acquitted.locked > 0 => tracing::debug!(%id, "its row is locked; it goes on alone"),
            // It was acquitted now, or by a try whose answer got lost, or its row is gone: in no case is a death held against it.
            Ok(_) => {
                tracing::warn!(%id, "has run alone for {ALONE:?}; other jobs run beside it from now on");
                return false;
            }
            Err(error) => tracing::debug!(%error, %id, "could not be acquitted; it goes on alone"),
        }
    }
    tracing::warn!(
        %id,
        "has run alone for {ALONE:?} and could not be acquitted in {TRIES} tries; other jobs run beside it from now on, and if the process dies \
         meanwhile, that counts against this job"
    );
    false
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};

    use super::*;
    use crate::error::Error;

    /// Runs for ever. Returns whether it was alone to its end, how often it was to be acquitted, and after how long other jobs may start.
    async fn endless(answer: impl Fn() -> Result<Acquitted>) -> (bool, u32, Duration) {
        let (asked, began) = (Cell::new(0), Instant::now());
        let acquit = || {
            asked.set(asked.get() + 1);
            ready(answer())
        };
        let alone = to_its_end(JobId::new(), pending(), acquit).await;
        (alone, asked.get(), began.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_keeps_a_process_from_its_work_for_ever() {
        let acquitted =
            |queues: &[&str], locked| Acquitted { queues: queues.iter().map(|&q| q.into()).collect(), locked };
        assert_eq!(endless(|| Ok(acquitted(&["default"], 0))).await, (false, 1, ALONE));
        // It is gone, or no suspect any more.
        assert_eq!(endless(|| Ok(acquitted(&[], 0))).await, (false, 1, ALONE));
        let at_last = ALONE + AGAIN * (TRIES - 1);
        assert_eq!(endless(|| Ok(acquitted(&[], 1))).await, (false, TRIES, at_last));
        assert_eq!(endless(|| Err(Error::invalid("no"))).await, (false, TRIES, at_last));
    }

    /// Or more jobs than the queue or the kind allows would run once others start beside it.
    #[tokio::test(start_paused = true)]
    async fn one_holds_slots_of_its_queue_and_kind() {
        let (queue, kind) = (Arc::new(Queue::new("q".to_owned(), 2)), Arc::new(Semaphore::new(2)));
        let held = slots(Some(&queue), Some(&kind)).await.unwrap();
        assert_eq!((queue.free(), kind.available_permits()), (1, 1));
        drop(held);
        assert_eq!((queue.free(), kind.available_permits()), (2, 2));
        // A dispatcher is about to claim.
        let all = (queue.try_take(2), kind.clone().try_acquire_many_owned(2));
        let soon = async {
            tokio::time::sleep(SLOTS / 2).await;
            drop(all);
        };
        let (held, ()) = tokio::join!(slots(Some(&queue), Some(&kind)), soon);
        assert_eq!((queue.free(), kind.available_permits()), (1, 1));
        drop(held);
        // It goes on in any case.
        let _all = (queue.try_take(2), kind.clone().try_acquire_many_owned(2));
        assert!(slots(Some(&queue), Some(&kind)).await.is_some_and(|(_, of_kind)| of_kind.is_none()));
        assert!(slots(None, None).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_ends_in_time_was_alone() {
        let acquit = || -> std::future::Ready<Result<Acquitted>> { panic!("it needs no acquittal") };
        assert!(to_its_end(JobId::new(), tokio::time::sleep(ALONE / 2), acquit).await);
    }
}
