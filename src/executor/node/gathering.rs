//! Jobs that wait for others to make a batch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::executor::node::slots::Slots;
use crate::job::Job;

/// A job and its slots.
pub(crate) struct Member {
    pub(crate) job: Job,
    pub(crate) slots: Arc<Slots>,
}

impl Member {
    pub(crate) fn new(job: Job, slots: Arc<Slots>) -> Self {
        Self { job, slots }
    }
}

/// The batches of a node that are not complete yet.
#[derive(Default)]
pub(crate) struct Gathering(Mutex<State>);

#[derive(Default)]
struct State {
    /// By kind (all its names count as one) and queue.
    forming: HashMap<(usize, String), Forming>,
    last: u64,
}

struct Forming {
    number: u64,
    members: Vec<Member>,
    /// Sends the members to the waiting task once there are enough.
    full: oneshot::Sender<Vec<Member>>,
}

/// What adding a member led to.
pub(crate) enum Added {
    /// It was the first member, so the caller has to wait for the others.
    First(u64, oneshot::Receiver<Vec<Member>>),
    Waits,
}

impl Gathering {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, key: &(usize, String), member: Member, size: usize) -> Added {
        let mut state = self.lock();
        let added = if let Some(forming) = state.forming.get_mut(key) {
            forming.members.push(member);
            Added::Waits
        } else {
            state.last += 1;
            let number = state.last;
            let (full, ready) = oneshot::channel();
            state.forming.insert(key.clone(), Forming { number, members: vec![member], full });
            Added::First(number, ready)
        };
        if state.forming.get(key).is_some_and(|forming| forming.members.len() >= size)
            && let Some(Forming { members, full, .. }) = state.forming.remove(key)
        {
            // The waiting task has not taken the members: they were still here. It waits while there are members.
            let _ = full.send(members);
        }
        added
    }

    /// Takes a batch as it is. `None`: it was completed meanwhile.
    pub(crate) fn take(&self, key: &(usize, String), number: u64) -> Option<Vec<Member>> {
        let mut state = self.lock();
        if state.forming.get(key).is_none_or(|forming| forming.number != number) {
            return None;
        }
        state.forming.remove(key).map(|forming| forming.members)
    }
}
