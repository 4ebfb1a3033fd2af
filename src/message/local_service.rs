//! The message service that hands jobs to an executor in the same process.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::OwnedSemaphorePermit;

use super::local::LocalHandoff;
use super::{CommitReceipt, FlushInto, MessageService, WakeUp, Written};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Due, Job, JobId, JobMessage};
use crate::store::{OwnedInsert, Preclaim, Store};

/// Reserves slots of an executor in this process for messages that are due now, and starts their jobs there once they are committed.
pub(super) struct LocalService<M> {
    inner: M,
    wakeup: Arc<WakeUp>,
    /// What the commit under way would hand off: one entry for each flush that wrote rows in the executor's name.
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
        // Discards what an earlier flush reserved.
        into.owned = None;
        // The time of a caller's commit is unknown here, and reserved slots would be idle until then.
        let reserved = if into.is_enlisted() { None } else { Reserved::of(&self.wakeup, self.inner.pending()) };
        let Some((reserved, owned)) = reserved else { return self.inner.flush(into).await };
        into.owned = Some(owned);
        let written = self.inner.flush(into).await;
        self.reserved.extend(reserved.left_by(&written));
        written
    }

    fn committed(&mut self, mut written: Written) -> CommitReceipt {
        let deliveries: Vec<_> =
            self.reserved.drain(..).filter_map(|reserved| reserved.take_from(&mut written)).collect();
        let mut receipt = self.inner.committed(written);
        for (handoff, jobs) in deliveries {
            receipt = receipt.executed(jobs.len());
            handoff.deliver(jobs);
        }
        receipt
    }
}

/// Whether an error rules out that rows were written in the executor's name.
fn wrote_nothing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Conflict | ErrorKind::Full | ErrorKind::Refused)
}

/// Slots reserved for some of the messages.
struct Reserved {
    handoff: Box<dyn LocalHandoff>,
    slots: HashMap<JobId, OwnedSemaphorePermit>,
}

/// Jobs for an executor, each with its slot.
type Delivery = (Box<dyn LocalHandoff>, Vec<(Job, OwnedSemaphorePermit)>);

impl Reserved {
    /// Reserves a slot for each message that is due now, while slots are free.
    fn of(wakeup: &WakeUp, messages: &[JobMessage]) -> Option<(Self, Preclaim)> {
        let ready = |message: &JobMessage| message.due == Due::Now && !message.is_blocked_at_first();
        if !messages.iter().any(ready) {
            return None;
        }
        let mut handoff = wakeup.handoff()?;
        let (mut slots, mut given) = (HashMap::new(), HashSet::new());
        for message in messages {
            // A given id that is sent twice is one job; the first message counts.
            if message.id_given && !given.insert(message.id) || !ready(message) {
                continue;
            }
            let Some(slot) = handoff.reserve(&message.queue, &message.kind) else { break };
            slots.insert(message.id, slot);
        }
        if slots.is_empty() {
            handoff.withdraw();
            return None;
        }
        handoff.expect(slots.keys().copied().collect());
        let ids = slots.keys().copied().collect();
        let owned = Preclaim { node: handoff.node(), claim: handoff.claim(), ids };
        Some((Self { handoff, slots }, owned))
    }

    /// What remains after a flush. The handoff is withdrawn if no row was written in the executor's name, and dropped if one may have been.
    fn left_by(self, written: &Result<Written>) -> Option<Self> {
        match written {
            Ok(written) if !written.owned.is_empty() => return Some(self),
            Err(error) if !wrote_nothing(error) => drop(self),
            _ => self.handoff.withdraw(),
        }
        None
    }

    /// Takes out the jobs that the executor owns now. `None` makes the executor search for its rows: an outer service changed what was
    /// reported as written.
    fn take_from(mut self, written: &mut Written) -> Option<Delivery> {
        let rows = written.owned.extract_if(.., |row| self.slots.contains_key(&row.id));
        let mut owned: HashMap<JobId, OwnedInsert> = rows.map(|row| (row.id, row)).collect();
        let version = self.handoff.claim().get();
        let mut jobs = Vec::with_capacity(owned.len());
        for message in std::mem::take(&mut written.messages) {
            match owned.remove(&message.id).zip(self.slots.remove(&message.id)) {
                Some((row, slot)) => jobs.push((job(message, &row, version), slot)),
                None => written.messages.push(message),
            }
        }
        if jobs.is_empty() {
            return None;
        }
        // The executor searches for those whose messages are not here.
        self.handoff.expect(owned.into_keys().collect());
        Some((self.handoff, jobs))
    }
}

fn job(message: JobMessage, row: &OwnedInsert, version: i64) -> Job {
    Job { location: row.location, ..Job::claimed(message, row.seq, version, 1, row.created_at) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::sync::Semaphore;

    use super::*;
    use crate::job::{ClaimNumber, Limits, NewJob, NodeId, RowLocation};
    use crate::store::Inserted;

    /// An executor with a free slot that records whether its handoff was withdrawn.
    struct Open {
        slots: Arc<Semaphore>,
        withdrawn: Arc<AtomicBool>,
    }

    impl LocalHandoff for Open {
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

    /// The result says that the row was not written, so the executor has nothing to search for in the database.
    #[test]
    fn an_id_that_was_there_already_raises_no_suspicion() {
        let (slots, withdrawn) = (Arc::new(Semaphore::new(1)), Arc::new(AtomicBool::new(false)));
        let handoff = Open { slots: slots.clone(), withdrawn: withdrawn.clone() };
        let slot = handoff.reserve("default", "kind").unwrap();
        let message = NewJob::json("kind", &1).id(JobId::new()).validate(Limits::default()).unwrap();
        let reserved = Reserved { handoff: Box::new(handoff), slots: HashMap::from([(message.id, slot)]) };
        assert!(reserved.left_by(&Ok(Written::new(vec![message], Inserted::default()))).is_none());
        assert!(withdrawn.load(Ordering::SeqCst), "dropped, it makes the executor look for the job");
        assert_eq!(slots.available_permits(), 1);
    }

    /// An outer service may have caught the error and returned something else.
    #[test]
    fn jobs_that_may_have_been_written_are_never_withdrawn() {
        let withdrawn = Arc::new(AtomicBool::new(false));
        let id = JobId::new();
        let reserved = || {
            let slots = Arc::new(Semaphore::new(1));
            let slot = slots.clone().try_acquire_owned().unwrap();
            let handoff = Open { slots, withdrawn: withdrawn.clone() };
            Reserved { handoff: Box::new(handoff), slots: HashMap::from([(id, slot)]) }
        };
        assert!(reserved().left_by(&Err(Error::new(ErrorKind::Timeout, "late"))).is_none());
        assert!(reserved().take_from(&mut Written::nothing()).is_none());
        assert!(!withdrawn.load(Ordering::SeqCst), "the executor would not look for the rows");
        assert!(reserved().left_by(&Err(Error::new(ErrorKind::Conflict, "held"))).is_none());
        assert!(withdrawn.load(Ordering::SeqCst));
    }

    /// It is one row, and so one job: handed off twice, its handler would run twice at once.
    #[test]
    fn a_given_id_that_is_sent_twice_is_handed_over_once() {
        let id = JobId::new();
        let (slots, withdrawn) = (Arc::new(Semaphore::new(2)), Arc::new(AtomicBool::new(false)));
        let handoff = Open { slots: slots.clone(), withdrawn };
        let message = || NewJob::json("kind", &1).id(id).validate(Limits::default()).unwrap();
        let slot = handoff.reserve("default", "kind").unwrap();
        let reserved = Reserved { handoff: Box::new(handoff), slots: HashMap::from([(id, slot)]) };
        let row = OwnedInsert { id, seq: 1, created_at: jiff::Timestamp::UNIX_EPOCH, location: RowLocation::default() };
        let inserted = Inserted { rows: 1, owned: vec![row], ..Inserted::default() };
        let mut written = Written::new(vec![message(), message()], inserted);
        let (_, jobs) = reserved.take_from(&mut written).unwrap();
        assert_eq!((jobs.len(), written.messages.len()), (1, 1));
    }
}
