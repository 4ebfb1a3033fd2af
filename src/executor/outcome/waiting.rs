//! Outcomes that could not be recorded yet, and callers that wait for them.

use std::collections::HashSet;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::executor::node::unrecorded::Unrecorded;
use crate::executor::outcome::held::Held;
use crate::executor::outcome::kept::Kept;
use crate::job::JobId;

/// All outcomes of a node that could not be recorded yet.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// The database refused them whatever job they are of.
    pub(crate) kept: Kept,
    /// Another transaction has locked their jobs.
    pub(crate) held: Held,
    /// They were not recorded before the lease ended.
    pub(crate) left: Vec<Unrecorded>,
    /// Callers that wait until nothing is kept and none of these jobs is held.
    callers: Vec<(HashSet<JobId>, oneshot::Sender<()>)>,
}

impl Waiting {
    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty() && self.kept.len() == 0 && self.held.next().is_none()
    }

    /// Takes out all outcomes, when the lease has ended. Callers are told that theirs are not recorded.
    pub(crate) fn take_all(&mut self) -> Vec<Unrecorded> {
        self.callers.clear();
        let mut all = std::mem::take(&mut self.left);
        all.extend(self.kept.take_all());
        all.extend(self.held.take_all());
        all
    }

    /// Waits until it is time to try again, for ever if nothing waits.
    pub(crate) async fn due(&self) {
        match self.kept.next().into_iter().chain(self.held.next()).min() {
            Some(next) => tokio::time::sleep_until(next).await,
            None => std::future::pending().await,
        }
    }

    /// Answers callers whose outcomes are recorded. To be called after each try, with the callers that came meanwhile.
    pub(crate) fn tried(&mut self, callers: Vec<(Vec<JobId>, oneshot::Sender<()>)>) {
        self.callers.extend(callers.into_iter().map(|(jobs, caller)| (jobs.into_iter().collect(), caller)));
        self.kept.tried(Instant::now());
        if self.kept.len() > 0 {
            return;
        }
        let held = &self.held;
        for (_, caller) in self.callers.extract_if(.., |(jobs, _)| !held.holds_any(jobs)) {
            // The receiver may be gone.
            let _ = caller.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::job::Fence;

    #[tokio::test(start_paused = true)]
    async fn a_caller_waits_for_its_own_jobs_and_for_what_is_refused_of_all() {
        let mut waiting = Waiting::default();
        let [mine, other] = [(); 2].map(|()| Fence::new(JobId::new(), 1));
        for fence in [mine, other] {
            waiting.held.put(Unrecorded::Done(fence));
        }
        let ((first, mut recorded), (all, mut gone)) = (oneshot::channel(), oneshot::channel());
        waiting.tried(vec![(vec![mine.id], first), (Vec::new(), all)]);
        assert!(recorded.try_recv().is_err() && gone.try_recv().is_ok());

        let due = waiting.held.due(Instant::now() + std::time::Duration::from_secs(1));
        due.into_iter().filter(|outcome| outcome.fence() == other).for_each(|outcome| waiting.held.put(outcome));
        waiting.kept.keep(vec![Unrecorded::Done(mine)], &Error::config("refused"));
        waiting.tried(Vec::new());
        assert!(recorded.try_recv().is_err(), "its outcome is kept");
        assert_eq!(waiting.kept.due(Instant::now() + std::time::Duration::from_secs(3)).len(), 1);
        waiting.tried(Vec::new());
        assert!(recorded.try_recv().is_ok(), "it waits for a job of another");
        assert!(!waiting.is_empty());
    }
}
