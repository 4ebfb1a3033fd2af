//! The tasks of a node that fail again and again. The node's row shows them, so that `status`, `doctor` and `why` can tell it without the log of that
//! node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::Notify;

use crate::store::FailingTask;

/// How long a task must have failed before it is shown. Shorter failures are for the log.
pub(crate) const LASTING: Duration = Duration::from_secs(5);
/// The same for missing workers of an external queue, which may just be starting again.
const LASTING_WORKERS: Duration = Duration::from_secs(15);
/// The longest error that is shown, in characters.
const LONGEST: usize = 500;

/// All tasks that fail at the moment.
#[derive(Default)]
pub(crate) struct FailingTasks {
    tasks: Mutex<BTreeMap<Key, Failure>>,
    changed: Notify,
}

/// The name of a task, and its queue if each has such a task.
type Key = (&'static str, Option<String>);

struct Failure {
    began: Instant,
    /// One failure may be that of a connection.
    is_repeated: bool,
    shown: FailingTask,
}

impl Failure {
    /// Returns when it has lasted for long, if it goes on.
    fn lasts_from(&self) -> Option<Instant> {
        let lasting = if self.shown.lacks_consumers() { LASTING_WORKERS } else { LASTING };
        self.is_repeated.then(|| self.began + lasting)
    }
}

impl FailingTasks {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Failure>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state of a task, which does not fail so far. `failed` describes its failure.
    pub(crate) fn task(self: &Arc<Self>, task: &'static str, queue: Option<&str>, failed: &'static str) -> TaskState {
        TaskState { all: self.clone(), key: (task, queue.map(str::to_owned)), failed, fails: false }
    }

    /// Returns the tasks that have failed for long enough.
    pub(crate) fn lasting(&self, now: Instant) -> Vec<FailingTask> {
        let tasks = self.lock();
        let lasting = tasks.values().filter(|failure| failure.lasts_from().is_some_and(|from| from <= now));
        lasting.map(|failure| failure.shown.clone()).collect()
    }

    /// Returns when the next task will have failed for long enough.
    pub(crate) fn next_lasting(&self, now: Instant) -> Option<Instant> {
        self.lock().values().filter_map(Failure::lasts_from).filter(|at| *at > now).min()
    }

    /// Waits until a task fails, or fails no more.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// Whether one task fails. Its line goes with it.
pub(crate) struct TaskState {
    all: Arc<FailingTasks>,
    key: Key,
    failed: &'static str,
    fails: bool,
}

impl TaskState {
    /// Notes a failure.
    pub(crate) fn failed(&mut self, error: &impl ToString) {
        self.fails = true;
        // PostgreSQL takes no NUL.
        let error: String = error.to_string().chars().filter(|c| *c != '\0').take(LONGEST).collect();
        let mut tasks = self.all.lock();
        if let Some(failure) = tasks.get_mut(&self.key) {
            if failure.is_repeated && failure.shown.error == error {
                return;
            }
            (failure.is_repeated, failure.shown.error) = (true, error);
        } else {
            let (task, queue) = (self.key.0.to_owned(), self.key.1.clone());
            let shown = FailingTask { task, queue, failed: self.failed.to_owned(), error, since: Timestamp::now() };
            tasks.insert(self.key.clone(), Failure { began: Instant::now(), is_repeated: false, shown });
        }
        drop(tasks);
        self.all.changed.notify_one();
    }

    /// Notes a success. Costs nothing unless it failed before.
    pub(crate) fn succeeded(&mut self) {
        if std::mem::take(&mut self.fails) {
            self.all.lock().remove(&self.key);
            self.all.changed.notify_one();
        }
    }
}

impl Drop for TaskState {
    fn drop(&mut self) {
        self.succeeded();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn a_task_is_shown_with_its_last_error_once_it_has_failed_for_long() {
        let all = Arc::<FailingTasks>::default();
        let mut task = all.task("claims", Some("q"), "jobs could not be claimed");
        task.failed(&"first");
        let now = Instant::now();
        assert!(all.lasting(now + LASTING).is_empty() && all.next_lasting(now).is_none(), "it may succeed at once");
        task.failed(&"\0é".repeat(600));
        assert!(all.lasting(now).is_empty(), "it may succeed soon");
        assert!(all.next_lasting(now).is_some_and(|at| at <= now + LASTING));
        let later = now + LASTING;
        let shown = all.lasting(later);
        let [shown] = &shown[..] else { panic!("{shown:?}") };
        assert_eq!((shown.task.as_str(), shown.queue.as_deref()), ("claims", Some("q")));
        assert!(shown.error.ends_with('é') && shown.error.chars().count() == LONGEST, "{shown:?}");
        assert_eq!(all.next_lasting(later), None);
        task.succeeded();
        assert!(all.lasting(later).is_empty());
        task.failed(&"again");
        task.failed(&"again");
        drop(task);
        assert!(all.lasting(Instant::now() + LASTING).is_empty(), "it has ended");
    }
}
