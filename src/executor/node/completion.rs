//! Outcomes on their way from workers to the completer.

use tokio::sync::{mpsc, oneshot};

use crate::executor::node::group_run::GroupRun;
use crate::executor::node::unrecorded::Unrecorded;
use crate::job::{Fence, JobId};
use crate::store::{Settlement, Verdict};

/// How an attempt ended whose handler did not use its transaction.
#[derive(Debug)]
pub(crate) enum Completion {
    Done(Fence),
    /// These jobs are done, and others of their group may follow in their slot.
    DoneInGroup(Vec<Fence>, GroupRun),
    Settled(Settlement),
    /// Sent back when all outcomes handed in before are recorded. Of those whose jobs another transaction has locked, only these are waited for.
    Recorded(Vec<JobId>, oneshot::Sender<()>),
}

impl Completion {
    /// Makes a job wait again, without an error.
    pub(crate) fn released(fence: Fence) -> Self {
        Self::Settled(Settlement::new(fence, Verdict::Release))
    }

    /// Returns the job whose outcome this is, if it is one of a single job.
    fn job(&self) -> Option<JobId> {
        match self {
            Self::Done(fence) => Some(fence.id),
            Self::Settled(settlement) => Some(settlement.fence.id),
            Self::DoneInGroup(..) | Self::Recorded(..) => None,
        }
    }

    /// Returns the outcomes alone. A node that ends frees the groups that it holds, and callers are told that nothing is recorded.
    pub(crate) fn unrecorded(self) -> Vec<Unrecorded> {
        match self {
            Self::Done(fence) => vec![Unrecorded::Done(fence)],
            Self::DoneInGroup(ended, _) => ended.into_iter().map(Unrecorded::Done).collect(),
            Self::Settled(settlement) => vec![Unrecorded::Settled(settlement)],
            Self::Recorded(..) => Vec::new(),
        }
    }
}

impl From<Unrecorded> for Completion {
    fn from(outcome: Unrecorded) -> Self {
        match outcome {
            Unrecorded::Done(fence) => Self::Done(fence),
            Unrecorded::Settled(settlement) => Self::Settled(settlement),
        }
    }
}

/// The sender with which workers hand in outcomes.
#[derive(Clone, Debug)]
pub(crate) struct Completions(mpsc::Sender<Completion>);

impl Completions {
    /// Returns a channel for this many outcomes.
    pub(crate) fn channel(backlog: usize) -> (Self, mpsc::Receiver<Completion>) {
        let (sender, receiver) = mpsc::channel(backlog);
        (Self(sender), receiver)
    }

    pub(crate) async fn send(&self, completion: Completion) {
        // Fails only after the end of the node.
        let _ = self.0.send(completion).await;
    }

    /// Hands in an outcome and waits until it is recorded. `false`: the completer has ended.
    pub(crate) async fn record(&self, completion: Completion) -> bool {
        let job = completion.job();
        self.send(completion).await;
        self.recorded(job.into_iter().collect()).await
    }

    /// Waits until all outcomes handed in before are recorded, though not for jobs that another transaction has locked, unless they are these.
    /// `false`: the completer has ended.
    pub(crate) async fn recorded(&self, jobs: Vec<JobId>) -> bool {
        let (done, recorded) = oneshot::channel();
        self.send(Completion::Recorded(jobs, done)).await;
        recorded.await.is_ok()
    }

    /// Hands in an outcome if that needs no wait. Returns whether it did.
    pub(crate) fn try_send(&self, completion: Completion) -> bool {
        match self.0.try_send(completion) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => true,
            Err(mpsc::error::TrySendError::Full(_)) => false,
        }
    }
}
