//! Drives the tasks of maintenance. Each does what is due, and says when it wants to run next.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::backoff::{FALLBACK_POLLS, Reconnect, jitter};
use crate::error::{Result, warn_of};
use crate::executor::node::failing::FailingTasks;

/// A task that runs again and again.
pub(crate) trait Periodic: Send {
    /// What is logged when a run fails.
    const FAILED: &'static str;

    /// Does what is due now, in one batch.
    fn run(&mut self) -> impl Future<Output = Result<Next>> + Send;
}

/// When a task wants to run next, if no signal comes before.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next {
    /// At once: there is more to do.
    Now,
    /// When something is due, as far as that is known. At the latest after the fallback.
    Due(Option<Duration>),
    /// After this pause.
    After(Duration),
}

/// Runs a task when something is due, when its signal announces something earlier (by a hint, or by the
/// [look ahead](super::look_ahead)), or after its fallback.
pub(crate) struct Driver {
    delays: Reconnect,
    /// The pause after a failure, if it does not grow with each.
    retry: Option<Duration>,
    fallback: Duration,
    signal: Arc<Notify>,
    stop: CancellationToken,
    /// The name of the task, and where its failures are shown.
    shown: Option<(&'static str, Arc<FailingTasks>)>,
}

impl Driver {
    /// Creates the driver of a task that `signal` wakes, until `stop`. Without a signal it runs again after 120 polls. After failures it
    /// pauses for longer each time, up to a poll.
    pub(crate) fn new(poll: Duration, signal: Arc<Notify>, stop: CancellationToken) -> Self {
        Self { delays: Reconnect::new(poll), retry: None, fallback: poll * FALLBACK_POLLS, signal, stop, shown: None }
    }

    /// Sets after which time the task runs without a signal.
    pub(crate) fn fallback(mut self, fallback: Duration) -> Self {
        self.fallback = fallback;
        self
    }

    /// Sets where the failures of the task are shown, and by which name.
    pub(crate) fn shown(mut self, task: &'static str, failing: Arc<FailingTasks>) -> Self {
        self.shown = Some((task, failing));
        self
    }

    /// Sets the pause after each failure. For tasks whose statements are heavy, and need not be repeated at once.
    pub(crate) fn retry(mut self, pause: Duration) -> Self {
        self.retry = Some(pause);
        self
    }

    /// Runs the task at once, and then again and again.
    pub(crate) async fn drive<T: Periodic>(mut self, mut task: T) {
        let mut state = self.shown.take().map(|(task, failing)| failing.task(task, None, T::FAILED));
        loop {
            let pause = match task.run().await {
                Ok(next) => {
                    self.delays.reset();
                    if let Some(state) = &mut state {
                        state.succeeded();
                    }
                    self.pause(next)
                }
                Err(error) => {
                    warn_of!(error, "{}; trying again", T::FAILED);
                    if let Some(state) = &mut state {
                        state.failed(&error);
                    }
                    self.retry.map_or_else(|| self.delays.next_delay(), jitter)
                }
            };
            // Also where there is more to do: others get a turn, and a signal that came meanwhile is taken.
            if !self.wait(pause).await {
                return;
            }
        }
    }

    /// Runs the task when its signal comes, and then again and again. The first poll, at the start, sends the signal if there is anything to do:
    /// a node that starts with many others makes few requests.
    pub(crate) async fn drive_when_woken<T: Periodic>(self, task: T) {
        let fallback = jitter(self.fallback);
        self.drive_after(fallback, task).await;
    }

    /// Runs the task after a pause, and then again and again.
    pub(crate) async fn drive_after<T: Periodic>(self, pause: Duration, task: T) {
        if self.wait(pause).await {
            self.drive(task).await;
        }
    }

    fn pause(&self, next: Next) -> Duration {
        match next {
            Next::Now => Duration::ZERO,
            // A little late rather than a little early: an early check finds nothing.
            Next::Due(next) => {
                next.map_or(self.fallback, |next| next + Duration::from_millis(1)).min(jitter(self.fallback))
            }
            Next::After(pause) => pause,
        }
    }

    /// Waits this long, or until the signal. `false`: the task has to stop.
    async fn wait(&self, pause: Duration) -> bool {
        tokio::select! {
            // A pause of zero is over at once: the stop and the signal come first.
            biased;
            () = self.stop.cancelled() => false,
            () = self.signal.notified() => true,
            () = tokio::time::sleep(pause) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::time::Instant;

    use super::*;
    use crate::error::{Error, ErrorKind};

    /// Answers with these, and then stops its driver. Records when it ran.
    struct Task {
        answers: Vec<Result<Next>>,
        ran: Arc<Mutex<Vec<Instant>>>,
        stop: CancellationToken,
    }

    impl Periodic for Task {
        const FAILED: &'static str = "nothing was done";

        async fn run(&mut self) -> Result<Next> {
            self.ran.lock().unwrap().push(Instant::now());
            if self.answers.is_empty() {
                self.stop.cancel();
                return Ok(Next::Now);
            }
            self.answers.remove(0)
        }
    }

    const POLL: Duration = Duration::from_secs(1);

    /// Runs a task that gives these answers, and returns the pauses behind each.
    async fn pauses(
        answers: Vec<Result<Next>>,
        signal: &Arc<Notify>,
        change: impl FnOnce(Driver) -> Driver,
    ) -> Vec<Duration> {
        let (ran, stop) = (Arc::<Mutex<Vec<Instant>>>::default(), CancellationToken::new());
        let task = Task { answers, ran: ran.clone(), stop: stop.clone() };
        change(Driver::new(POLL, signal.clone(), stop)).drive(task).await;
        let ran = ran.lock().unwrap();
        ran.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    /// Timers have a resolution of a millisecond.
    fn is(took: Duration, expected: Duration) -> bool {
        took >= expected && took <= expected + Duration::from_millis(3)
    }

    fn failure() -> Result<Next> {
        Err(Error::new(ErrorKind::Unreachable, "gone"))
    }

    #[tokio::test(start_paused = true)]
    async fn it_runs_when_something_is_due_and_at_the_latest_after_its_fallback() {
        let answers = [Next::After(POLL * 3), Next::Due(Some(POLL)), Next::Due(None), Next::Due(Some(POLL * 1000))];
        let took = pauses(answers.map(Ok).into(), &Arc::default(), |driver| driver).await;
        assert!(is(took[0], POLL * 3) && is(took[1], POLL), "{took:?}");
        assert!(took[2..].iter().all(|took| *took <= POLL * 145 && *took >= POLL * 95), "{took:?}");
    }

    /// Between two batches as well: it would otherwise cost a run more, when all is done.
    #[tokio::test(start_paused = true)]
    async fn a_signal_ends_one_pause() {
        for first in [Next::Now, Next::After(POLL)] {
            let signal = Arc::<Notify>::default();
            signal.notify_one();
            let took = pauses(vec![Ok(first), Ok(Next::After(POLL))], &signal, |driver| driver).await;
            assert!(is(took[0], Duration::ZERO) && is(took[1], POLL), "{first:?}: {took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_after_failures_grow_up_to_a_poll_or_are_as_long_as_was_said() {
        let took = pauses((0..20).map(|_| failure()).collect(), &Arc::default(), |driver| driver).await;
        assert!(took[0] < POLL / 5 && took[19] > POLL / 2 && took[19] < POLL * 2, "{took:?}");
        let took = pauses(vec![failure(), failure()], &Arc::default(), |driver| driver.retry(POLL * 10)).await;
        assert!(took.iter().all(|took| *took >= POLL * 8 && *took <= POLL * 12), "{took:?}");
    }
}
