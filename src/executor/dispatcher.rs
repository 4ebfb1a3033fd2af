//! Claims jobs for the free slots of a queue, and starts them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::batch::{Member, gather};
use super::incarnation::Incarnation;
use super::jitter;
use super::queue::Queue;
use super::registry::{Kind, Slots};
use super::scan::Scan;
use super::stats::add;
use super::worker;
use crate::backoff::Reconnect;
use crate::error::warn_of;
use crate::job::Job;
use crate::store::{ClaimRequest, Store};

/// Jobs claimed with one statement at most.
const BATCH: usize = 500;

/// Longest time between two looks while this node is cut off from a broker that others may reach.
const CUT_OFF_POLL: Duration = Duration::from_millis(800);

/// Kinds that are claimed together: all without a limit of their own, or one that has one. So a node never takes more of a
/// limited kind than it can start.
struct Group<S: Store> {
    kinds: Vec<String>,
    limited: Option<Arc<Kind<S>>>,
    scan: Scan,
}

/// A claimed job with its slots.
struct Ready {
    job: Job,
    slot: OwnedSemaphorePermit,
    kind_slot: Option<OwnedSemaphorePermit>,
}

/// The dispatcher of one queue.
pub(super) struct Dispatcher<S: Store> {
    node: Arc<Incarnation<S>>,
    queue: Arc<Queue>,
    groups: Vec<Group<S>>,
    /// Claimed in a flood, to be started while the next claim is under way: then the server does not wait for this process.
    ready: Vec<Ready>,
}

impl<S: Store> Dispatcher<S> {
    pub(super) fn new(node: Arc<Incarnation<S>>, queue: Arc<Queue>) -> Self {
        let group = |kinds, limited| Group { kinds, limited, scan: Scan::new(Instant::now()) };
        let mut groups = Vec::new();
        let mut unlimited = Vec::new();
        let mut limited: Vec<(Arc<Kind<S>>, Vec<String>)> = Vec::new();
        for (name, kind) in node.registry.iter() {
            match limited.iter_mut().find(|(known, _)| Arc::ptr_eq(known, kind)) {
                // Another name of the same kind shares its limit.
                Some((_, names)) => names.push(name.clone()),
                None if kind.slots.is_some() => limited.push((kind.clone(), vec![name.clone()])),
                None => unlimited.push(name.clone()),
            }
        }
        if !unlimited.is_empty() {
            groups.push(group(unlimited, None));
        }
        groups.extend(limited.into_iter().map(|(kind, names)| group(names, Some(kind))));
        Self { node, queue, groups, ready: Vec::new() }
    }

    /// Runs until the node stops claiming.
    pub(super) async fn run(mut self) {
        let stop = self.node.stop_claiming.clone();
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.dispatch() => {}
        }
        start_all(&self.node, &mut self.ready);
    }

    async fn dispatch(&mut self) {
        let mut delays = Reconnect::new(Duration::from_secs(2));
        loop {
            let heard = self.queue.heard();
            if self.queue.take_rescan() {
                self.groups.iter_mut().for_each(|group| group.scan.owe());
            }
            let mut more = false;
            let mut failed = false;
            for index in 0..self.groups.len() {
                match self.look(index).await {
                    Ok(full) => more |= full,
                    Err(error) => {
                        warn_of!(error, queue = %self.queue.name, "jobs could not be claimed; trying again");
                        self.node.claim_failed(&error);
                        failed = true;
                        break;
                    }
                }
            }
            if failed {
                self.queue.looked(heard, true);
                tokio::time::sleep(delays.next_delay()).await;
            } else {
                delays.reset();
                self.queue.looked(heard, more);
                if !more {
                    self.idle().await;
                }
            }
        }
    }

    /// Waits for a sign of work, or until it is time to look anyway.
    async fn idle(&mut self) {
        let mut pause = self.node.poll_interval;
        if self.node.cut_off() {
            // Others may still send by the broker, and wake nobody for what they hold.
            pause = pause.min(CUT_OFF_POLL);
        }
        let now = Instant::now();
        let poll = now + jitter(pause);
        // What could have been looked at by now has no free slot. The end of one of its jobs is a sign.
        let wanted = self.groups.iter().filter_map(|group| group.scan.wanted_at()).filter(|at| *at > now).min();
        tokio::select! {
            () = self.queue.woken() => {}
            () = tokio::time::sleep_until(wanted.map_or(poll, |at| at.min(poll))) => {
                // A poll is to find what nobody told of, wherever it is.
                self.groups.iter_mut().for_each(|group| group.scan.owe());
            }
        }
    }

    /// Claims once for a group and starts what was claimed. Returns whether there may be more.
    async fn look(&mut self, index: usize) -> crate::Result<bool> {
        let group = &mut self.groups[index];
        if group.scan.is_flooded() {
            self.queue.gather(BATCH).await;
        }
        let mut slots = match self.queue.try_take(BATCH) {
            Some(slots) => slots,
            None => {
                start_all(&self.node, &mut self.ready);
                let Some(slots) = self.queue.take(BATCH).await else {
                    return Ok(false);
                };
                slots
            }
        };
        let mut kind_slots = None;
        if let Some(kind) = &group.limited {
            // Not waited for, because the queue's slots are in hand. The end of a job of this kind wakes the dispatcher.
            let Some(free) = free_slots(kind, slots.num_permits()) else {
                start_all(&self.node, &mut self.ready);
                return Ok(false);
            };
            drop(slots.split(slots.num_permits() - free.num_permits()));
            kind_slots = Some(free);
        }
        let limit = slots.num_permits();
        let look = group.scan.next(Instant::now(), limit);
        let request = ClaimRequest {
            node: self.node.id,
            claim: self.node.next_claim(),
            queue: &self.queue.name,
            kinds: Some(&group.kinds),
            limit,
            part: look.part(),
            // Nothing is delivered at the moment, so nothing is kept back for it.
            held_too: self.node.cut_off(),
        };
        let claiming = self.node.in_flight.claiming.clone().read_owned().await;
        let ready = &mut self.ready;
        let start_others = async {
            if !ready.is_empty() {
                // After the claim is on its way.
                tokio::task::yield_now().await;
                start_all(&self.node, ready);
            }
        };
        let (answer, ()) = tokio::join!(self.node.store.claim(&request), start_others);
        let now = Instant::now();
        let claimed = answer.inspect_err(|_| group.scan.failed(&look, now))?;
        self.node.in_flight.add(claimed.jobs.iter());
        drop(claiming);

        let more = group.scan.found(&look, &claimed, limit, now);
        add(&self.node.counters.claimed, claimed.jobs.len());
        for job in claimed.jobs {
            // As many as were asked for, so there is one for each.
            let Some(slot) = slots.split(1) else { break };
            let kind_slot = kind_slots.as_mut().and_then(|slots| slots.split(1));
            self.ready.push(Ready { job, slot, kind_slot });
        }
        // The next claim must not have to wait for what these hold.
        if !group.scan.is_flooded() || self.queue.free() < limit {
            start_all(&self.node, &mut self.ready);
        }
        Ok(more)
    }
}

fn start_all<S: Store>(node: &Arc<Incarnation<S>>, ready: &mut Vec<Ready>) {
    for Ready { job, slot, kind_slot } in ready.drain(..) {
        start(node, job, slot, kind_slot);
    }
}

/// The free slots of a kind that has a limit, at most `most`.
fn free_slots<S: Store>(kind: &Kind<S>, most: usize) -> Option<OwnedSemaphorePermit> {
    let slots = kind.slots.as_ref()?;
    let free = u32::try_from(slots.available_permits().min(most)).ok().filter(|free| *free > 0)?;
    slots.clone().try_acquire_many_owned(free).ok()
}

/// Starts a job that this node owns.
pub(super) fn start<S: Store>(
    node: &Arc<Incarnation<S>>,
    job: Job,
    slot: OwnedSemaphorePermit,
    kind_slot: Option<OwnedSemaphorePermit>,
) {
    let Some(kind) = node.registry.get(&job.kind).cloned() else {
        return unknown(node, &job);
    };
    start_as(node, kind, job, Slots::new(slot, kind_slot));
}

/// Can't happen: only registered kinds are asked for. The row is given back.
fn unknown<S: Store>(node: &Incarnation<S>, job: &Job) {
    node.in_flight.remove(std::iter::once(job.fence()));
    node.in_flight.suspect();
}

fn start_as<S: Store>(node: &Arc<Incarnation<S>>, kind: Arc<Kind<S>>, job: Job, slots: Arc<Slots>) {
    if job.attempt > job.max_attempts {
        node.workers.spawn(worker::bury(node.clone(), job, slots));
        return;
    }
    if let Some(plan) = &kind.batch {
        gather(node, &kind, plan, Member::new(job, slots));
        return;
    }
    node.workers.spawn(worker::run(node.clone(), kind, job, slots));
}
