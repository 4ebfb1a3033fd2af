//! The message service that hands jobs to an executor in the same process, and what it asks of that. The executor stands above this module
//! and implements it.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::OwnedSemaphorePermit;

use super::{FlushInto, Handoff, MessageService, WakeUp, Written};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{ClaimNumber, Due, Job, JobId, JobMessage, NodeId};
use crate::store::{Hint, OwnedInsert, Preclaim, Store};

/// An executor in this process.
pub(crate) trait LocalExecutor: Send + Sync {
    /// There may be work.
    fn hint(&self, hint: &Hint);

    /// Opens a hand-over, if this executor is in a state to take jobs straight from a commit.
    fn offer(&self) -> Option<Box<dyn Offer>>;
}

/// The hot path: jobs that are inserted already owned by an executor with a free slot, and run straight after the commit with
/// no claim, no poll and no wake-up. Never beyond free slots, and only for a queue that has nothing waiting.
///
/// Dropped without [`deliver`](Self::deliver), the executor must assume that the rows it was to [`expect`](Self::expect) may exist, because a
/// commit whose answer got lost may have taken effect; it then looks for them and gives them back.
pub(crate) trait Offer: Send + Sync {
    /// Who will own the rows.
    fn node(&self) -> NodeId;

    /// Under which number of a claim.
    fn claim(&self) -> ClaimNumber;

    /// A free slot for a job of this kind in this queue.
    fn reserve(&self, queue: &str, kind: &str) -> Option<OwnedSemaphorePermit>;

    /// These are to be inserted in this executor's name.
    fn expect(&mut self, ids: Vec<JobId>);

    /// They are committed: run them.
    fn deliver(self: Box<Self>, jobs: Vec<(Job, OwnedSemaphorePermit)>);

    /// Nothing was inserted in this executor's name.
    fn withdraw(self: Box<Self>);
}

/// Reserves slots of an executor in this process for messages that are due now, and starts them there once they are committed.
pub(super) struct LocalService<M> {
    inner: M,
    wakeup: Arc<WakeUp>,
    /// What the commit under way would hand over: one for each flush that wrote rows in the executor's name.
    reserved: Vec<Reserved>,
}

impl<M> LocalService<M> {
    pub(super) fn around(inner: M, wakeup: Arc<WakeUp>) -> Self {
        Self { inner, wakeup, reserved: Vec::new() }
    }
}

#[async_trait]
impl<S: Store, M: MessageService<S>> MessageService<S> for LocalService<M> {
    fn inner(&self) -> Option<&dyn MessageService<S>> {
        Some(&self.inner)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn MessageService<S>> {
        Some(&mut self.inner)
    }

    async fn flush(&mut self, into: &mut FlushInto<'_, S>) -> Result<Written> {
        // Never what an earlier flush was offered.
        into.owned = None;
        // Nobody here knows when somebody else commits, and slots would be idle until then.
        let reserved = if into.is_enlisted() { None } else { Reserved::of(&self.wakeup, self.inner.pending()) };
        let Some((reserved, owned)) = reserved else { return self.inner.flush(into).await };
        into.owned = Some(owned);
        let written = self.inner.flush(into).await;
        self.reserved.extend(reserved.left_by(&written));
        written
    }

    fn committed(&mut self, mut written: Written) -> Handoff {
        let deliveries: Vec<_> =
            self.reserved.drain(..).filter_map(|reserved| reserved.take_from(&mut written)).collect();
        let mut handoff = self.inner.committed(written);
        for (offer, jobs) in deliveries {
            handoff = handoff.executed(jobs.len());
            offer.deliver(jobs);
        }
        handoff
    }
}

/// It was refused before anything was written in the executor's name.
fn wrote_nothing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Conflict | ErrorKind::Full | ErrorKind::Refused)
}

/// Slots for some of the messages.
struct Reserved {
    offer: Box<dyn Offer>,
    slots: HashMap<JobId, OwnedSemaphorePermit>,
}

/// Jobs for an executor, each with its slot.
type Delivery = (Box<dyn Offer>, Vec<(Job, OwnedSemaphorePermit)>);

impl Reserved {
    /// Reserves a slot for each message that is due now, as far as there are free ones.
    fn of(wakeup: &WakeUp, messages: &[JobMessage]) -> Option<(Self, Preclaim)> {
        let ready = |message: &JobMessage| message.due == Due::Now && !message.is_blocked_at_first();
        if !messages.iter().any(ready) {
            return None;
        }
        let mut offer = wakeup.offer()?;
        let (mut slots, mut positions) = (HashMap::new(), Vec::new());
        for (position, message) in messages.iter().enumerate().filter(|(_, message)| ready(message)) {
            // A given id that is sent twice is one job: the first one counts.
            if slots.contains_key(&message.id) {
                continue;
            }
            let Some(slot) = offer.reserve(&message.queue, &message.kind) else { break };
            slots.insert(message.id, slot);
            positions.push(position);
        }
        if slots.is_empty() {
            offer.withdraw();
            return None;
        }
        offer.expect(slots.keys().copied().collect());
        let owned = Preclaim { node: offer.node(), claim: offer.claim(), positions };
        Some((Self { offer, slots }, owned))
    }

    /// What a flush leaves of it. Withdrawn if that wrote no row in the executor's name; dropped if it may have.
    fn left_by(self, written: &Result<Written>) -> Option<Self> {
        match written {
            Ok(written) if !written.owned.is_empty() => return Some(self),
            Err(error) if !wrote_nothing(error) => drop(self),
            _ => self.offer.withdraw(),
        }
        None
    }

    /// Takes out what the executor owns now. `None`, and the executor looks for its rows: what was written is not what is told now, because a
    /// service around this one has told otherwise.
    fn take_from(mut self, written: &mut Written) -> Option<Delivery> {
        let rows = written.owned.extract_if(.., |row| self.slots.contains_key(&row.id));
        let mut owned: HashMap<JobId, OwnedInsert> = rows.map(|row| (row.id, row)).collect();
        let version = self.offer.claim().get();
        let mut jobs = Vec::with_capacity(owned.len());
        for message in std::mem::take(&mut written.messages) {
            match owned.remove(&message.id).zip(self.slots.remove(&message.id)) {
                Some((row, slot)) => jobs.push((job(message, &row, version), slot)),
                None => written.messages.push(message),
            }
        }
        (!jobs.is_empty()).then_some((self.offer, jobs))
    }
}

fn job(message: JobMessage, row: &OwnedInsert, version: i64) -> Job {
    let JobMessage { id, kind, queue, priority, max_attempts, payload, headers, terms, .. } = message;
    let OwnedInsert { seq, created_at, place, .. } = *row;
    Job {
        id,
        seq,
        version,
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
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::sync::Semaphore;

    use super::*;
    use crate::job::{Limits, NewJob, RowPlace};
    use crate::store::Inserted;

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
        let reserved = Reserved { offer: Box::new(offer), slots: HashMap::from([(message.id, slot)]) };
        assert!(reserved.left_by(&Ok(Written::new(vec![message], Inserted::default()))).is_none());
        assert!(withdrawn.load(Ordering::SeqCst), "dropped, it makes the executor look for the job");
        assert_eq!(slots.available_permits(), 1);
    }

    /// A service around this one may have caught the error and told something else.
    #[test]
    fn what_may_have_been_written_is_never_withdrawn() {
        let withdrawn = Arc::new(AtomicBool::new(false));
        let id = JobId::new();
        let reserved = || {
            let slots = Arc::new(Semaphore::new(1));
            let slot = slots.clone().try_acquire_owned().unwrap();
            let offer = Open { slots, withdrawn: withdrawn.clone() };
            Reserved { offer: Box::new(offer), slots: HashMap::from([(id, slot)]) }
        };
        assert!(reserved().left_by(&Err(Error::new(ErrorKind::Timeout, "late"))).is_none());
        assert!(reserved().take_from(&mut Written::nothing()).is_none());
        assert!(!withdrawn.load(Ordering::SeqCst), "the executor would not look for the rows");
        assert!(reserved().left_by(&Err(Error::new(ErrorKind::Conflict, "held"))).is_none());
        assert!(withdrawn.load(Ordering::SeqCst));
    }

    /// It is one row, and so one job: handed over twice, its handler would run beside itself.
    #[test]
    fn a_given_id_that_is_sent_twice_is_handed_over_once() {
        let id = JobId::new();
        let (slots, withdrawn) = (Arc::new(Semaphore::new(2)), Arc::new(AtomicBool::new(false)));
        let offer = Open { slots: slots.clone(), withdrawn };
        let message = || NewJob::json("kind", &1).id(id).validate(Limits::default()).unwrap();
        let slot = offer.reserve("default", "kind").unwrap();
        let reserved = Reserved { offer: Box::new(offer), slots: HashMap::from([(id, slot)]) };
        let row = OwnedInsert { id, seq: 1, created_at: jiff::Timestamp::UNIX_EPOCH, place: RowPlace::default() };
        let inserted = Inserted { rows: 1, owned: vec![row], ..Inserted::default() };
        let mut written = Written::new(vec![message(), message()], inserted);
        let (_, jobs) = reserved.take_from(&mut written).unwrap();
        assert_eq!((jobs.len(), written.messages.len()), (1, 1));
    }
}
