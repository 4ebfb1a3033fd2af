//! What both message services do: one insert at the flush, and the word spread after the commit.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::local::Offer;
use super::pipe::{Pipe, Pointer};
use super::room::make_room;
use super::together::Together;
use super::{Collected, Handoff, WakeUp, WentTo, WhenFull};
use crate::codec::Codecs;
use crate::error::Result;
use crate::job::{Due, Job, JobId, JobMessage, Limits, NewJob};
use crate::store::{Hint, Inserted, JobStore, OwnedInsert, Preclaim, UnitOfWork};

/// What services open with.
#[derive(Clone)]
pub(crate) struct Means {
    pub(super) jobs: Arc<dyn JobStore>,
    /// For contexts that open no transaction.
    pub(super) together: Arc<Together>,
    pub(super) wakeup: Arc<WakeUp>,
    pub(super) limits: Limits,
    pub(super) codecs: Codecs,
    /// To the broker, if there is one.
    pub(super) pipe: Option<Arc<Pipe>>,
}

impl Means {
    /// Without a broker.
    pub(super) fn new(jobs: Arc<dyn JobStore>, wakeup: Arc<WakeUp>, limits: Limits, codecs: Codecs) -> Self {
        Self { together: Together::new(jobs.clone()), jobs, wakeup, limits, codecs, pipe: None }
    }
}

/// The messages of one context, from the first `send` until after the commit.
pub(super) struct Flush {
    means: Means,
    collected: Collected,
    /// What the commit under way would hand to an executor in this process.
    handover: Option<Handover>,
    when_full: WhenFull,
    /// Unique ones that were not written.
    kept: Vec<(JobId, JobId)>,
}

/// Slots reserved in this process for some of the messages.
struct Handover {
    offer: Box<dyn Offer>,
    slots: HashMap<usize, OwnedSemaphorePermit>,
    inserted: Option<Inserted>,
}

impl Handover {
    /// Reserves a slot for each message that is due now, as far as there are free ones.
    fn reserve(wakeup: &WakeUp, messages: &[JobMessage]) -> Option<Self> {
        let ready = |message: &JobMessage| message.due == Due::Now && !message.is_blocked_at_first();
        if !messages.iter().any(ready) {
            return None;
        }
        let mut offer = wakeup.offer()?;
        // One id is one row, and one handler, however often it was sent.
        let mut given = HashSet::new();
        let slots: HashMap<_, _> = messages
            .iter()
            .enumerate()
            .filter(|(_, message)| ready(message) && (!message.id_given || given.insert(message.id)))
            .map_while(|(position, message)| Some((position, offer.reserve(&message.queue, &message.kind)?)))
            .collect();
        if slots.is_empty() {
            offer.withdraw();
            return None;
        }
        offer.expect(slots.keys().map(|position| messages[*position].id).collect());
        Some(Self { offer, slots, inserted: None })
    }

    fn preclaim(&self) -> Preclaim {
        Preclaim { node: self.offer.node(), claim: self.offer.claim(), positions: self.slots.keys().copied().collect() }
    }
}

impl Flush {
    pub(super) fn new(means: Means) -> Self {
        Self {
            collected: Collected::new(means.limits, means.codecs.clone()),
            means,
            handover: None,
            when_full: WhenFull::default(),
            kept: Vec::new(),
        }
    }

    pub(super) fn send(&mut self, job: NewJob) -> Result<JobId> {
        self.collected.send(job)
    }

    pub(super) fn messages(&self) -> &[JobMessage] {
        self.collected.messages()
    }

    pub(super) fn when_full(&mut self, when_full: WhenFull) {
        self.when_full = when_full;
    }

    pub(super) async fn within(&mut self, transaction: &mut impl UnitOfWork) -> Result<()> {
        self.collected.encode()?;
        make_room(&*self.means.jobs, self.collected.messages(), self.when_full, true).await?;
        let (handover, preclaim) = self.plan();
        let inserted = transaction.insert(self.collected.messages(), preclaim.as_ref()).await?;
        self.inserted(handover, inserted);
        Ok(())
    }

    pub(super) async fn alone(&mut self) -> Result<()> {
        self.collected.encode()?;
        make_room(&*self.means.jobs, self.collected.messages(), self.when_full, false).await?;
        let (handover, preclaim) = self.plan();
        let messages = self.collected.messages();
        let inserted = match &preclaim {
            Some(_) => self.means.jobs.insert(messages, preclaim.as_ref()).await?,
            None => self.means.together.insert(messages).await?,
        };
        self.inserted(handover, inserted);
        Ok(())
    }

    /// Decides which way each message goes: a free slot here first, then the pipe, else the table.
    fn plan(&mut self) -> (Option<Handover>, Option<Preclaim>) {
        let handover = Handover::reserve(&self.means.wakeup, self.collected.messages());
        if let Some(pipe) = &self.means.pipe {
            let taken = |position| handover.as_ref().is_some_and(|handover| handover.slots.contains_key(&position));
            pipe.hold(self.collected.messages_mut(), taken);
        }
        let preclaim = handover.as_ref().map(Handover::preclaim);
        (handover, preclaim)
    }

    fn inserted(&mut self, handover: Option<Handover>, inserted: Inserted) {
        self.kept.extend_from_slice(&inserted.kept);
        self.handover = handover.map(|mut handover| {
            handover.inserted = Some(inserted);
            handover
        });
    }

    pub(super) fn committed(&mut self) -> Handoff {
        let messages = self.collected.take();
        let (taken, left) = match self.handover.take() {
            Some(handover) => hand_over(handover, messages),
            None => (None, messages),
        };
        let left = written(left, &self.kept);
        let executor = taken.as_ref().map_or(0, |(_, jobs)| jobs.len());
        let handoff = spread(&self.means.wakeup, self.means.pipe.as_ref(), left, executor);
        if let Some((offer, jobs)) = taken {
            offer.deliver(jobs);
        }
        handoff.kept_back(std::mem::take(&mut self.kept))
    }
}

type Delivery = (Box<dyn Offer>, Vec<(Job, OwnedSemaphorePermit)>);

/// Splits committed messages into those an executor in this process owns, and the rest.
fn hand_over(handover: Handover, messages: Vec<JobMessage>) -> (Option<Delivery>, Vec<JobMessage>) {
    let Handover { offer, mut slots, inserted } = handover;
    let owned: HashMap<JobId, OwnedInsert> =
        inserted.unwrap_or_default().owned.into_iter().map(|row| (row.id, row)).collect();
    let mut jobs = Vec::with_capacity(owned.len());
    let mut left = Vec::new();
    for (position, message) in messages.into_iter().enumerate() {
        match (owned.get(&message.id), slots.remove(&position)) {
            (Some(&OwnedInsert { seq, created_at, place, .. }), Some(slot)) => {
                let JobMessage { id, kind, queue, priority, max_attempts, payload, headers, terms, .. } = message;
                let job = Job {
                    id,
                    seq,
                    version: offer.claim().get(),
                    kind,
                    queue,
                    priority,
                    attempt: 1,
                    max_attempts,
                    payload,
                    headers,
                    terms,
                    admitted: false,
                    created_at,
                    place,
                };
                jobs.push((job, slot));
            }
            _ => left.push(message),
        }
    }
    if jobs.is_empty() {
        offer.withdraw();
        return (None, left);
    }
    (Some((offer, jobs)), left)
}

/// Leaves out unique messages that were not written.
pub(super) fn written(mut messages: Vec<JobMessage>, kept: &[(JobId, JobId)]) -> Vec<JobMessage> {
    if !kept.is_empty() {
        let gone: HashSet<JobId> = kept.iter().filter(|(id, holder)| id != holder).map(|(id, _)| *id).collect();
        messages.retain(|message| !gone.contains(&message.id));
    }
    messages
}

/// Spreads the word of committed messages: deliveries of those that are held for one, wake-ups for the others.
pub(super) fn spread(wakeup: &WakeUp, pipe: Option<&Arc<Pipe>>, messages: Vec<JobMessage>, executor: usize) -> Handoff {
    wakeup.tell(hints(&messages));
    let (held, waiting): (Vec<_>, Vec<_>) = messages.into_iter().partition(|message| !message.hold.is_zero());
    let handoff = Handoff::known(WentTo { executor, broker: 0, table: waiting.len() });
    let pointers: Vec<_> =
        held.into_iter().map(|JobMessage { id, queue, kind, .. }| Pointer { id, queue, kind }).collect();
    match pipe {
        Some(pipe) if !pointers.is_empty() => handoff.published(pipe.publish(pointers)),
        _ => handoff,
    }
}

/// Who has to hear of these messages: each queue once, those who admit, and those who wait for a time.
pub(crate) fn hints<'m>(messages: impl IntoIterator<Item = &'m JobMessage>) -> Vec<Hint> {
    let mut hints = Vec::new();
    for message in messages {
        // What is delivered needs no wake-up.
        let ready = message.hold.is_zero().then(|| match message.due {
            Due::Now if message.is_blocked_at_first() => Hint::Gate,
            Due::Now => Hint::Queue(message.queue.clone()),
            Due::In(_) | Due::At(_) => Hint::Timer,
        });
        let expiry = message.terms.ttl.map(|_| Hint::Expiry);
        for hint in ready.into_iter().chain(expiry) {
            if !hints.contains(&hint) {
                hints.push(hint);
            }
        }
    }
    hints
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::sync::Semaphore;

    use super::*;
    use crate::job::{ClaimNumber, NodeId};

    /// An executor with a free slot that sees what becomes of its offer.
    struct Open {
        slots: Arc<Semaphore>,
        withdrawn: Arc<AtomicBool>,
    }

    impl Offer for Open {
        fn node(&self) -> NodeId {
            NodeId(1)
        }

        fn claim(&self) -> ClaimNumber {
            ClaimNumber::new(1)
        }

        fn reserve(&self, _: &str, _: &str) -> Option<OwnedSemaphorePermit> {
            self.slots.clone().try_acquire_owned().ok()
        }

        fn expect(&mut self, _: Vec<JobId>) {}

        fn deliver(self: Box<Self>, _: Vec<(Job, OwnedSemaphorePermit)>) {}

        fn withdraw(self: Box<Self>) {
            self.withdrawn.store(true, Ordering::SeqCst);
        }
    }

    /// The answer says that it was not written, so the executor has nothing to look for in the database.
    #[test]
    fn an_id_that_was_there_already_raises_no_suspicion() {
        let (slots, withdrawn) = (Arc::new(Semaphore::new(1)), Arc::new(AtomicBool::new(false)));
        let offer = Open { slots: slots.clone(), withdrawn: withdrawn.clone() };
        let slot = offer.reserve("default", "kind").unwrap();
        let message = NewJob::json("kind", &1).id(JobId::new()).validate(Limits::default()).unwrap();
        let handover =
            Handover { offer: Box::new(offer), slots: HashMap::from([(0, slot)]), inserted: Some(Inserted::default()) };
        let (taken, left) = hand_over(handover, vec![message]);
        assert!(taken.is_none());
        assert_eq!(left.len(), 1);
        assert!(withdrawn.load(Ordering::SeqCst), "dropped, it makes the executor look for the job");
        assert_eq!(slots.available_permits(), 1);
    }
}
