//! What a failed attempt means: who decides whether it is tried again, and when.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::KindOptions;
use super::panic::catching;
use crate::job::{Job, JobError, RetryAdvice, RetryPolicy};

/// The pause before a handler that lost a conflict is run again; the second is twice as long, and so on.
const CONFLICT_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_CONFLICT_PAUSE: Duration = Duration::from_millis(250);

/// Says what an error means for its job. It gets every failure of a handler, also a panic or a timeout, with the advice the error
/// came with ([`JobError::advice`]); what it returns counts.
#[derive(Clone)]
pub struct Classifier(Arc<Classify>);

type Classify = dyn Fn(&JobError, &Job) -> RetryAdvice + Send + Sync;

impl Classifier {
    /// From a closure. It runs on the worker's task, so it should not block.
    pub fn new(classify: impl Fn(&JobError, &Job) -> RetryAdvice + Send + Sync + 'static) -> Self {
        Self(Arc::new(classify))
    }
}

/// The same one: what a closure does can't be compared.
impl PartialEq for Classifier {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Classifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Classifier(…)")
    }
}

/// How failures are treated on this executor.
#[derive(Debug)]
pub(super) struct Failing {
    pub(super) classifier: Option<Classifier>,
    /// Of kinds that have no handler here: their jobs are run by external workers.
    pub(super) kinds: HashMap<String, KindOptions>,
    /// By queue, for those that have one of their own.
    pub(super) queues: HashMap<String, RetryPolicy>,
    pub(super) default: RetryPolicy,
    /// How often a conflict is tried again at once.
    pub(super) conflicts: u32,
}

impl Failing {
    /// What an error means for a job that has already lost `conflicts` conflicts in this attempt.
    pub(super) fn decide(&self, error: &JobError, job: &Job, kind: &KindOptions, conflicts: u32) -> Decision {
        let classifier = kind.classify.as_ref().or(self.classifier.as_ref());
        let advice = classifier.map_or(error.advice(), |Classifier(classify)| {
            // One that panics has no say, but its job must not be left without an outcome.
            catching(|| classify(error, job)).unwrap_or_else(|panic| {
                tracing::error!(error = %panic, "the classifier of errors panicked; the error's own advice is followed");
                error.advice()
            })
        });
        match advice {
            RetryAdvice::Conflict if conflicts < self.conflicts => Decision::AtOnce,
            RetryAdvice::ByPolicy | RetryAdvice::Conflict => {
                let policy = effective_policy(job, kind, self.queues.get(&job.queue)).unwrap_or(&self.default);
                Decision::Later(policy.delay(job.attempt))
            }
            RetryAdvice::After(delay) => Decision::Later(delay),
            RetryAdvice::Never => Decision::Never,
        }
    }
}

/// What becomes of a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Run the handler again, within the same attempt.
    AtOnce,
    /// The next attempt, if one is left.
    Later(Duration),
    /// No further one.
    Never,
}

/// The policy that decides about a job's delays: its own before its kind's before its queue's. `None` = nobody has one.
fn effective_policy<'a>(
    job: &'a Job,
    kind: &'a KindOptions,
    queue: Option<&'a RetryPolicy>,
) -> Option<&'a RetryPolicy> {
    job.terms.retry.as_ref().or(kind.retry.as_ref()).or(queue)
}

/// Waits before a handler that lost its `conflicts`-th conflict runs again: not long, but not all losers together.
pub(super) async fn pause(conflicts: u32, cancelled: &CancellationToken) {
    let policy = RetryPolicy::Exponential { base: CONFLICT_PAUSE, factor: 2.0, max: LONGEST_CONFLICT_PAUSE };
    tokio::select! {
        () = cancelled.cancelled() => {}
        () = tokio::time::sleep(policy.delay(conflicts)) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobId, Payload, RowPlace, Terms};

    fn job(queue: &str, attempt: u32) -> Job {
        Job {
            id: JobId::new(),
            seq: 1,
            version: 1,
            kind: "kind".to_owned(),
            queue: queue.to_owned(),
            priority: 0,
            attempt,
            max_attempts: 10,
            payload: Payload::text("x"),
            headers: std::collections::BTreeMap::new(),
            terms: Terms::default(),
            admitted: false,
            created_at: jiff::Timestamp::UNIX_EPOCH,
            place: RowPlace::default(),
        }
    }

    fn fixed(seconds: u64) -> RetryPolicy {
        RetryPolicy::Fixed(Duration::from_secs(seconds))
    }

    fn failing(classifier: Option<Classifier>) -> Failing {
        let queues = HashMap::from([("slow".to_owned(), fixed(60))]);
        Failing { classifier, kinds: HashMap::new(), queues, default: fixed(1), conflicts: 2 }
    }

    fn later(seconds: u64) -> Decision {
        Decision::Later(Duration::from_secs(seconds))
    }

    #[test]
    fn the_job_decides_before_the_kind_before_the_queue_before_the_default() {
        let (failing, error) = (failing(None), JobError::new("no"));
        let (plain, kind) = (KindOptions::default(), KindOptions::default().retry(fixed(5)));
        assert_eq!(failing.decide(&error, &job("default", 1), &plain, 0), later(1));
        assert_eq!(failing.decide(&error, &job("slow", 1), &plain, 0), later(60));
        assert_eq!(failing.decide(&error, &job("slow", 1), &kind, 0), later(5));
        let mut own = job("slow", 1);
        own.terms.retry = Some(fixed(7));
        assert_eq!(failing.decide(&error, &own, &kind, 0), later(7));
    }

    #[test]
    fn a_conflict_is_tried_again_at_once_until_it_is_an_ordinary_failure() {
        let (failing, error) = (failing(None), JobError::conflict("lost"));
        let decide = |conflicts| failing.decide(&error, &job("default", 1), &KindOptions::default(), conflicts);
        assert_eq!((decide(0), decide(1), decide(2)), (Decision::AtOnce, Decision::AtOnce, later(1)));
    }

    #[test]
    fn the_classifier_of_a_kind_decides_before_that_of_the_executor() {
        let never = |message: &'static str| {
            Classifier::new(
                move |error: &JobError, _: &Job| {
                    if error.message() == message { RetryAdvice::Never } else { error.advice() }
                },
            )
        };
        let failing = failing(Some(never("executor")));
        let decide = |options: &KindOptions, message: &str| {
            failing.decide(&JobError::new(message), &job("default", 1), options, 0)
        };
        let plain = KindOptions::default();
        assert_eq!((decide(&plain, "executor"), decide(&plain, "kind")), (Decision::Never, later(1)));
        let own = KindOptions::default().classifier(never("kind"));
        assert_eq!((decide(&own, "executor"), decide(&own, "kind")), (later(1), Decision::Never));
    }

    #[test]
    fn a_classifier_that_panics_has_no_say() {
        let failing = failing(Some(Classifier::new(|_, _| panic!("broken"))));
        let decided = failing.decide(&JobError::fatal("no"), &job("default", 1), &KindOptions::default(), 0);
        assert_eq!(decided, Decision::Never);
    }
}
