//! Claims jobs for the free slots of a queue, and starts them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::backoff::{FALLBACK_POLLS, Reconnect, jitter};
use crate::error::warn_of;
use crate::executor::dispatch::kind_set::{KindSet, kind_sets};
use crate::executor::dispatch::pace::{Cause, Pace};
use crate::executor::dispatch::ready::{Ready, start_all, take_kind_slots};
use crate::executor::dispatch::scan::ScanPlan;
use crate::executor::groups::counting::CountingTurn;
use crate::executor::metrics::stats::add;
use crate::executor::node::Node;
use crate::executor::node::alone;
use crate::executor::node::limits::Limit;
use crate::executor::node::queue::{DispatchPhase, Queue};
use crate::job::Job;
use crate::store::nodes::CLAIMS;
use crate::store::{Allowed, ClaimRequest, Claimed};

/// Its failure, for the log and for the node's row.
const FAILED: &str = "jobs could not be claimed";

/// The most jobs claimed with one statement.
const BATCH: usize = 500;

/// How long a starting node waits for the first read of the rules, which another program's lock may delay.
const RULES_KNOWN: Duration = Duration::from_secs(1);

/// How often the workers of limited jobs may run before the next claim.
const GATHER_TURNS: usize = 16;

/// Longest time between two scans while this node is cut off from a broker that other nodes may still reach.
const CUT_OFF_POLL: Duration = Duration::from_millis(800);

/// The dispatcher of one queue.
pub(crate) struct Dispatcher {
    node: Arc<Node>,
    queue: Arc<Queue>,
    sets: Vec<KindSet>,
    /// The revisions of the rules, and of the kinds that this node leaves alone, that the sets were made for.
    revision: (u64, u64),
    /// The number of passes over the sets. Each pass begins with another one: a limit they share may have capacity for one of them
    /// only.
    passes: usize,
    /// Jobs claimed under a backlog. They start while the next claim is under way, so that the server does not wait for this process.
    ready: Vec<Ready>,
    pace: Pace,
    /// How many jobs the present pass has claimed.
    found: usize,
}

impl Dispatcher {
    pub(crate) fn new(node: Arc<Node>, queue: Arc<Queue>) -> Self {
        let revision = revision(&node);
        let sets = kind_sets(&node, &queue, Vec::new());
        let pace = Pace::new(node.poll_interval);
        Self { node, queue, sets, revision, passes: 0, ready: Vec::new(), pace, found: 0 }
    }

    /// Claims and starts jobs until the node stops claiming.
    pub(crate) async fn run(mut self) {
        let stop = self.node.stop_claiming.clone();
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.dispatch() => {}
        }
        start_all(&self.node, &mut self.ready);
    }

    async fn dispatch(&mut self) {
        let mut delays = Reconnect::new(Duration::from_secs(2));
        let mut state = self.node.failing.task(CLAIMS, Some(&self.queue.name), FAILED);
        // Not for long: if the rules are still unknown then, limited jobs wait until they are known.
        let _ = tokio::time::timeout(RULES_KNOWN, self.node.limits.known()).await;
        self.queue.enter(DispatchPhase::Pauses);
        let (mut cause, mut signs) = (Cause::Sign, 0);
        loop {
            if !alone::is_open() {
                start_all(&self.node, &mut self.ready);
                self.queue.enter(DispatchPhase::Pauses);
                alone::opened().await;
            }
            let heard = self.queue.heard();
            let polls = self.queue.take_polls();
            if heard - signs > polls {
                cause = Cause::Sign;
            } else if polls > 0 {
                cause = Cause::Poll;
            }
            signs = heard;
            self.renew_sets();
            if self.queue.take_rescan() {
                self.sets.iter_mut().for_each(KindSet::owe);
            }
            let mut more = false;
            let mut failed = false;
            self.found = 0;
            self.passes = self.passes.wrapping_add(1);
            for turn in 0..self.sets.len() {
                match self.claim_set((self.passes + turn) % self.sets.len()).await {
                    Ok(full) => more |= full,
                    Err(error) => {
                        warn_of!(error, queue = %self.queue.name, "{FAILED}; trying again");
                        state.failed(&error);
                        self.node.claim_failed(&error);
                        failed = true;
                        break;
                    }
                }
            }
            if failed {
                self.queue.looked(heard, true);
                self.queue.enter(DispatchPhase::Pauses);
                tokio::time::sleep(delays.next_delay()).await;
            } else {
                delays.reset();
                state.succeeded();
                // Also of a pass that had nothing to ask, as while the slots of its kinds are taken.
                self.queue.claimed(None);
                self.queue.looked(heard, more);
                self.pace.passed(cause, self.found > 0);
                cause = Cause::Sign;
                if !more {
                    self.queue.enter(DispatchPhase::Pauses);
                    cause = self.idle().await;
                }
            }
        }
    }

    /// Waits for a sign of work, or until the next scan is due anyway. Polls see whether there is work in the queue
    /// ([`LookAhead`](crate::executor::maintenance::look_ahead::LookAhead)), so this task looks by itself only after many of them, or soon after it
    /// found jobs that no hint announced.
    async fn idle(&mut self) -> Cause {
        let now = Instant::now();
        let own = now
            + jitter(if self.node.cut_off() {
                // Other nodes may still send through the broker, and notify no executor of the rows they hide.
                self.node.poll_interval.min(CUT_OFF_POLL)
            } else {
                self.node.poll_interval * FALLBACK_POLLS
            });
        // A group whose scan is already due has no free slot. The end of one of its jobs will wake this task.
        let wanted = self.sets.iter().filter_map(|set| set.scan.wanted_at()).filter(|at| *at > now).min();
        let paced = self.pace.pause().map(|pause| now + pause);
        loop {
            // A hint of jobs that end on other nodes may get lost, so a refused set asks again.
            let again = self.sets.iter().filter_map(|set| set.again).min();
            tokio::select! {
                () = self.queue.woken() => {}
                () = tokio::time::sleep_until(paced.unwrap_or(own)), if paced.is_some() => return Cause::Pause,
                () = self.queue.room() => {
                    self.sets.iter_mut().for_each(KindSet::may_have_room);
                    // Where such signs come all the time, the timer below never ends.
                    self.queue.enter(DispatchPhase::Pauses);
                    continue;
                }
                () = tokio::time::sleep_until(again.unwrap_or(own)), if again.is_some_and(|again| again < own) => {}
                () = tokio::time::sleep_until(wanted.map_or(own, |at| at.min(own))) => {
                    // This finds rows that no hint announced, wherever they are.
                    self.sets.iter_mut().for_each(KindSet::owe);
                }
                () = tokio::time::sleep(self.node.poll_interval) => {
                    // Shows observers that the task lives.
                    self.queue.enter(DispatchPhase::Pauses);
                    continue;
                }
            }
            return Cause::Sign;
        }
    }

    /// Claims once for a set of kinds and starts the claimed jobs. Returns whether there may be more.
    async fn claim_set(&mut self, index: usize) -> crate::Result<bool> {
        let counted = self.sets[index].counted.clone();
        let set = &mut self.sets[index];
        if set.is_refused(Instant::now()) {
            return Ok(false);
        }
        set.again = None;
        if set.scan.has_backlog() {
            if set.bound {
                gather_under(&counted).await;
            } else {
                self.queue.gather(BATCH).await;
            }
        }
        let Some(mut slots) = self.take_slots().await else { return Ok(false) };
        let set = &mut self.sets[index];
        if self.node.breakers.revision() != self.revision.1 {
            // The jobs that held the slots may have said that this node can't run their kind.
            return Ok(true);
        }
        let mut kind_slots = None;
        if let Some(kind) = &set.limited {
            // Not waited for, because this task holds slots of the queue. The end of a job of this kind wakes the dispatcher.
            let Some(free) = take_kind_slots(kind, slots.num_permits()) else {
                start_all(&self.node, &mut self.ready);
                return Ok(false);
            };
            drop(slots.split(slots.num_permits() - free.num_permits()));
            kind_slots = Some(free);
        }
        self.queue.enter(DispatchPhase::WaitsForTurn);
        let turn = CountingTurn::begin(&counted).await;
        let Some(claim) = self.node.in_flight.begin_claim_beside().await else {
            // A job is to run alone, after those that were claimed.
            start_all(&self.node, &mut self.ready);
            return Ok(true);
        };
        set.asks();
        let counts = turn.counts();
        let limit = slots.num_permits();
        let plan = set.scan.next(Instant::now(), limit);
        // A hint or a poll says that jobs may have been admitted. A node that missed the hint finds them with a scan from the start.
        set.admitted |= plan.is_from_start();
        let request = ClaimRequest {
            node: self.node.id,
            claim: claim.number(),
            queue: &self.queue.name,
            kinds: Some(&set.kinds),
            limit,
            range: plan.range(),
            // Nothing is delivered at the moment, so hidden rows are claimed too.
            include_hidden: self.node.cut_off(),
            counted: &counts,
            admitted_too: set.admitted,
            suspects: false,
        };
        let ready = &mut self.ready;
        let start_others = async {
            if !ready.is_empty() {
                // Jobs start once the claim is on its way.
                tokio::task::yield_now().await;
                start_all(&self.node, ready);
            }
        };
        self.queue.enter(DispatchPhase::Claims);
        let sent = Instant::now();
        let (answer, ()) = tokio::join!(self.node.store.claim(&request), start_others);
        let now = Instant::now();
        self.node.counters.claims.add(now - sent);
        self.queue.claimed(answer.as_ref().err());
        let claimed = answer.inspect_err(|error| set.failed(&plan, error, now))?;
        self.node.in_flight.add(claimed.jobs.iter());
        self.found += claimed.jobs.len();
        drop(claim);

        tracing::trace!(queue = %self.queue.name, jobs = claimed.jobs.len(), limit, took = ?(now - sent), "claimed");
        add(&self.node.counters.claimed, claimed.jobs.len());
        self.node.counters.claim_sizes.add(claimed.jobs.len());
        let written = claimed.allowed.as_ref().is_some_and(|allowed| allowed.written);
        if let Some(allowed) = &claimed.allowed {
            turn.written(&counts, allowed, claimed.jobs.iter().filter(|job| !job.admitted).count());
        }
        let (more, jobs) = match claimed.allowed {
            None => (set.scan.found(&plan, &claimed, limit, now), claimed.jobs),
            Some(allowed) => self.counted(index, &plan, claimed.jobs, &allowed, limit, now),
        };
        self.start_with_others(index);
        for job in jobs {
            // The claim returns no more jobs than slots, so there is one slot for each.
            let Some(slot) = slots.split(1) else { break };
            let kind_slot = kind_slots.as_mut().and_then(|slots| slots.split(1));
            let running = turn.running(&job);
            self.ready.push(Ready { job, slot, kind_slot, running });
        }
        let more = self.refused(index, written) || more;
        // The next claim must not have to wait for the slots of these jobs.
        let set = &self.sets[index];
        if !set.scan.has_backlog() || self.queue.free() < limit || set.bound {
            start_all(&self.node, &mut self.ready);
        }
        Ok(more)
    }

    /// Takes the free slots of the queue, and waits for one if there is none.
    async fn take_slots(&mut self) -> Option<OwnedSemaphorePermit> {
        if let Some(slots) = self.queue.try_take(BATCH) {
            return Some(slots);
        }
        start_all(&self.node, &mut self.ready);
        self.queue.enter(DispatchPhase::WaitsForTurn);
        self.queue.take(BATCH).await
    }

    /// Applies what a claim under limits says of the waiting jobs. Returns whether to claim again at once, and the jobs.
    fn counted(
        &mut self,
        index: usize,
        plan: &ScanPlan,
        jobs: Vec<Job>,
        allowed: &Allowed,
        limit: usize,
        now: Instant,
    ) -> (bool, Vec<Job>) {
        if allowed.unblocked {
            self.node.in_flight.admission_due.notify_one();
        }
        self.node.limits.left(allowed, &self.node.wakeup);
        // Admitted jobs were found in another way than by the scan.
        let (mut jobs, fresh): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(|job| job.admitted);
        // Unless they took all slots, these were all the admitted jobs.
        self.sets[index].admitted &= jobs.len() >= limit;
        let bound = allowed.jobs < limit - jobs.len().min(limit);
        let fresh_count = fresh.len();
        let full = fresh_count >= allowed.jobs;
        let set = &mut self.sets[index];
        let fresh = Claimed { jobs: fresh, ..Claimed::default() };
        let more = if allowed.jobs == 0 {
            set.scan.saw_nothing(plan);
            // Admitted jobs may have filled the slots.
            !jobs.is_empty() && jobs.len() >= limit
        } else {
            set.was_allowed();
            set.scan.found(plan, &fresh, allowed.jobs, now)
        };
        jobs.extend(fresh.jobs);
        set.bound = bound && full;
        if set.bound && allowed.waits {
            let told = !allowed.permits && self.node.signals.hears.load(Ordering::Relaxed);
            set.was_refused(allowed.wait, told, now);
        }
        if allowed.passed_over && fresh_count < allowed.jobs.max(1) {
            set.owe_a_claim();
        }
        (more && !set.bound, jobs)
    }

    /// Lets a set that scanned to the end of the queue start where the others are. Otherwise it would walk over the same dead rows
    /// again and again, though it may never find one of its own jobs.
    fn start_with_others(&mut self, index: usize) {
        if !self.sets[index].scan.saw_all() {
            return;
        }
        let (before, rest) = self.sets.split_at_mut(index);
        if let Some((set, after)) = rest.split_first_mut() {
            before.iter().chain(&*after).for_each(|other| set.scan.start_with(&other.scan));
        }
    }

    /// After a refusal, records that other sets with the same limits would be refused too. Returns whether a job has ended meanwhile.
    fn refused(&mut self, index: usize, written: bool) -> bool {
        let set = &self.sets[index];
        if set.again.is_none() {
            return false;
        }
        let ended = set.wait_for_ends(&self.queue.name);
        // Nothing was written when another transaction held the limit, so the limit may have capacity.
        if !written {
            return ended;
        }
        let (counted, ends) = (set.counted.clone(), set.ends());
        self.sets.iter_mut().for_each(|other| other.is_refused_with(&counted, &ends));
        ended
    }

    /// Makes the sets again when the rules, or the kinds that this node can run, have changed.
    fn renew_sets(&mut self) {
        let revision = revision(&self.node);
        if revision != self.revision {
            self.revision = revision;
            // There may be no set left whose next claim would start them.
            start_all(&self.node, &mut self.ready);
            self.sets = kind_sets(&self.node, &self.queue, std::mem::take(&mut self.sets));
        }
    }
}

/// Lets jobs that were just started finish, so that one claim replaces all that end together. If they run for long, this costs a few turns
/// of the scheduler and no time.
async fn gather_under(limits: &[Arc<Limit>]) {
    for _ in 0..GATHER_TURNS {
        if limits.iter().all(|limit| limit.running() == 0) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// Returns the revisions of what the sets depend on.
fn revision(node: &Node) -> (u64, u64) {
    (node.limits.revision(), node.breakers.revision())
}
