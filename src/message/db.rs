use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::OwnedSemaphorePermit;

use super::local::Offer;
use super::{Collected, MessageService, MessageServiceFactory, WakeUp};
use crate::error::Result;
use crate::job::{Due, Job, JobId, JobMessage, Limits, NewJob};
use crate::store::{Hint, Inserted, JobStore, Preclaim, Store, UnitOfWork};

/// Flushes into the job table of the context's own database.
pub struct DbMessageService {
    collected: Collected,
    jobs: Arc<dyn JobStore>,
    wakeup: Arc<WakeUp>,
    /// What the commit under way would hand to an executor in this process.
    handover: Option<Handover>,
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
        if messages.iter().all(|message| message.due != Due::Now) {
            return None;
        }
        let offer = wakeup.offer()?;
        let slots: HashMap<_, _> = messages
            .iter()
            .enumerate()
            .filter(|(_, message)| message.due == Due::Now)
            .map_while(|(position, message)| Some((position, offer.reserve(&message.queue, &message.kind)?)))
            .collect();
        if slots.is_empty() {
            offer.withdraw();
            return None;
        }
        Some(Self { offer, slots, inserted: None })
    }

    fn preclaim(&self) -> Preclaim {
        Preclaim { node: self.offer.node(), positions: self.slots.keys().copied().collect() }
    }
}

impl DbMessageService {
    fn inserted(&mut self, handover: Option<Handover>, inserted: Inserted) {
        self.handover = handover.map(|mut handover| {
            handover.inserted = Some(inserted);
            handover
        });
    }
}

#[async_trait]
impl<S: Store> MessageService<S> for DbMessageService {
    fn send(&mut self, job: NewJob) -> Result<JobId> {
        self.collected.send(job)
    }

    fn pending(&self) -> &[JobMessage] {
        self.collected.messages()
    }

    async fn flush(&mut self, transaction: &mut S::Transaction) -> Result<()> {
        let handover = Handover::reserve(&self.wakeup, self.collected.messages());
        let preclaim = handover.as_ref().map(Handover::preclaim);
        let inserted = transaction.insert(self.collected.messages(), preclaim.as_ref()).await?;
        self.inserted(handover, inserted);
        Ok(())
    }

    async fn flush_alone(&mut self) -> Result<()> {
        let handover = Handover::reserve(&self.wakeup, self.collected.messages());
        let preclaim = handover.as_ref().map(Handover::preclaim);
        let inserted = self.jobs.insert(self.collected.messages(), preclaim.as_ref()).await?;
        self.inserted(handover, inserted);
        Ok(())
    }

    fn committed(&mut self) {
        let messages = self.collected.take();
        let (taken, left) = match self.handover.take() {
            Some(handover) => hand_over(handover, messages),
            None => (None, messages),
        };
        self.wakeup.tell(hints(&left));
        if let Some((offer, jobs)) = taken {
            offer.deliver(jobs);
        }
    }
}

type Delivery = (Box<dyn Offer>, Vec<(Job, OwnedSemaphorePermit)>);

/// Splits committed messages into those an executor in this process owns, and the rest.
fn hand_over(handover: Handover, messages: Vec<JobMessage>) -> (Option<Delivery>, Vec<JobMessage>) {
    let Handover { offer, mut slots, inserted } = handover;
    let owned: HashMap<JobId, _> =
        inserted.unwrap_or_default().owned.into_iter().map(|row| (row.id, (row.seq, row.created_at))).collect();
    let mut jobs = Vec::with_capacity(owned.len());
    let mut left = Vec::new();
    for (position, message) in messages.into_iter().enumerate() {
        match (owned.get(&message.id), slots.remove(&position)) {
            (Some(&(seq, created_at)), Some(slot)) => {
                let JobMessage { id, kind, queue, priority, max_attempts, payload, headers, .. } = message;
                let job = Job {
                    id,
                    seq,
                    version: 1,
                    kind,
                    queue,
                    priority,
                    attempt: 1,
                    max_attempts,
                    payload,
                    headers,
                    created_at,
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

/// Who has to hear of these messages: each queue once, and those who wait for timers.
pub(super) fn hints(messages: &[JobMessage]) -> Vec<Hint> {
    let mut hints = Vec::new();
    for message in messages {
        let hint = if message.due == Due::Now { Hint::Queue(message.queue.clone()) } else { Hint::Timer };
        if !hints.contains(&hint) {
            hints.push(hint);
        }
    }
    hints
}

/// Opens [`DbMessageService`]s.
pub struct DbMessageServiceFactory {
    jobs: Arc<dyn JobStore>,
    wakeup: Arc<WakeUp>,
    limits: Limits,
}

impl DbMessageServiceFactory {
    pub(super) fn new(jobs: Arc<dyn JobStore>, wakeup: Arc<WakeUp>, limits: Limits) -> Self {
        Self { jobs, wakeup, limits }
    }
}

impl<S: Store> MessageServiceFactory<S> for DbMessageServiceFactory {
    fn open(&self) -> Box<dyn MessageService<S>> {
        Box::new(DbMessageService {
            collected: Collected::new(self.limits),
            jobs: self.jobs.clone(),
            wakeup: self.wakeup.clone(),
            handover: None,
        })
    }

    fn describe(&self) -> String {
        format!("job table of {}", self.jobs.describe())
    }
}
