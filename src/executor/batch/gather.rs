//! Lets claimed jobs wait for others of their kind and queue.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use super::super::node_session::NodeSession;
use super::super::registry::{Kind, Slots};
use super::BatchPlan;
use crate::job::Job;
use crate::store::Store;

/// A job and its slots.
pub(in crate::executor) struct Member {
    pub(super) job: Job,
    pub(super) slots: Arc<Slots>,
}

impl Member {
    pub(in crate::executor) fn new(job: Job, slots: Arc<Slots>) -> Self {
        Self { job, slots }
    }
}

/// The batches of a node that are not complete yet.
#[derive(Default)]
pub(in crate::executor) struct Gathering(Mutex<State>);

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
enum Added {
    /// It was the first member, so the caller has to wait for the others.
    First(u64, oneshot::Receiver<Vec<Member>>),
    Waits,
}

impl Gathering {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, key: &(usize, String), member: Member, size: usize) -> Added {
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
    fn take(&self, key: &(usize, String), number: u64) -> Option<Vec<Member>> {
        let mut state = self.lock();
        if state.forming.get(key).is_none_or(|forming| forming.number != number) {
            return None;
        }
        state.forming.remove(key).map(|forming| forming.members)
    }
}

/// Returns how many jobs make a batch. A larger batch could never fill, and would always wait in vain.
pub(in crate::executor) fn size<S: Store>(
    node: &NodeSession<S>,
    kind: &Kind<S>,
    plan: &BatchPlan<S>,
    queue: &str,
) -> usize {
    let most = [node.queues.get(queue).map(|queue| queue.concurrency()), kind.options.concurrency];
    most.into_iter().flatten().fold(plan.options.size, usize::min)
}

/// Adds a job to the batch being formed, or starts one.
pub(in crate::executor) fn gather<S: Store>(
    node: &Arc<NodeSession<S>>,
    kind: &Arc<Kind<S>>,
    plan: &Arc<BatchPlan<S>>,
    member: Member,
) {
    let size = size(node, kind, plan, &member.job.queue);
    let key = (Arc::as_ptr(kind).addr(), member.job.queue.clone());
    let Added::First(number, mut ready) = node.gathering.add(&key, member, size) else { return };
    let (node, kind, plan, wait) = (node.clone(), kind.clone(), plan.clone(), plan.options.wait);
    node.workers.clone().spawn(async move {
        let complete = tokio::select! {
            biased;
            members = &mut ready => members.ok(),
            () = tokio::time::sleep(wait) => None,
            // No more jobs will come.
            () = node.stop_claiming.cancelled() => None,
        };
        let members = match complete.or_else(|| node.gathering.take(&key, number)) {
            Some(members) => members,
            None => match ready.await {
                Ok(members) => members,
                Err(_) => return,
            },
        };
        super::run(node, kind, plan, members).await;
    });
}
