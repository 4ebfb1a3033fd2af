//! What a failed attempt means: whether and when it is tried again.

use std::collections::HashMap;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::executor::kinds::classifier::Classifier;
use crate::executor::kinds::options::KindOptions;
use crate::executor::panic::catching;
use crate::job::{Job, JobError, RetryAdvice, RetryPolicy};

/// The pause before a handler that lost a conflict is run again. Each further pause is twice as long.
const CONFLICT_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_CONFLICT_PAUSE: Duration = Duration::from_millis(250);

/// How failures are treated on this executor.
#[derive(Debug)]
pub(crate) struct FailurePolicy {
    pub(crate) classifier: Option<Classifier>,
    /// Options of kinds that have no handler here: external workers run their jobs.
    pub(crate) kinds: HashMap<String, KindOptions>,
    /// Policies of queues that have their own.
    pub(crate) queues: HashMap<String, RetryPolicy>,
    pub(crate) default: RetryPolicy,
    /// How often a conflict is tried again at once.
    pub(crate) conflicts: u32,
}

impl FailurePolicy {
    /// Decides what an error means for a job that has already lost `conflicts` conflicts in this attempt.
    pub(crate) fn decide(&self, error: &JobError, job: &Job, kind: &KindOptions, conflicts: u32) -> RetryDecision {
        let classifier = kind.classify.as_ref().or(self.classifier.as_ref());
        let advice = classifier.map_or(error.advice(), |Classifier(classify)| {
            // A classifier that panics has no say, but its job must not be left without an outcome.
            catching(|| classify(error, job)).unwrap_or_else(|panic| {
                tracing::error!(error = %panic, "the classifier of errors panicked; the error's own advice is followed");
                error.advice()
            })
        });
        match advice {
            RetryAdvice::Conflict if conflicts < self.conflicts => RetryDecision::AtOnce,
            RetryAdvice::ByPolicy | RetryAdvice::Conflict => RetryDecision::Later(self.delay(job, kind)),
            RetryAdvice::NotBefore(delay) => RetryDecision::Later(self.delay(job, kind).max(delay)),
            RetryAdvice::After(delay) => RetryDecision::Later(delay),
            RetryAdvice::NotHere => RetryDecision::NotHere,
            RetryAdvice::Never => RetryDecision::Never,
        }
    }

    /// Returns the delay after a failed attempt, by policy.
    pub(crate) fn delay(&self, job: &Job, kind: &KindOptions) -> Duration {
        let policy = effective_policy(job, kind, self.queues.get(&job.queue)).unwrap_or(&self.default);
        policy.delay(job.attempt)
    }
}

/// What follows a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryDecision {
    /// Run the handler again, within the same attempt.
    AtOnce,
    /// The next attempt, if one is left.
    Later(Duration),
    /// The same attempt, on another node or later.
    NotHere,
    /// No further attempt.
    Never,
}

/// Returns the policy for a job's delays: the job's own, else its kind's, else its queue's. `None` = none of them has one.
fn effective_policy<'a>(
    job: &'a Job,
    kind: &'a KindOptions,
    queue: Option<&'a RetryPolicy>,
) -> Option<&'a RetryPolicy> {
    job.options.retry.as_ref().or(kind.retry.as_ref()).or(queue)
}

/// Waits before a handler that lost its `conflicts`-th conflict runs again. The wait is short and random, so that the losers do not run
/// together.
pub(crate) async fn pause(conflicts: u32, cancelled: &CancellationToken) {
    let policy = RetryPolicy::Exponential { base: CONFLICT_PAUSE, factor: 2.0, max: LONGEST_CONFLICT_PAUSE };
    tokio::select! {
        () = cancelled.cancelled() => {}
        () = tokio::time::sleep(policy.delay(conflicts)) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobId, JobOptions, Payload, RowLocation};

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
            options: JobOptions::default(),
            admitted: false,
            created_at: jiff::Timestamp::UNIX_EPOCH,
            location: RowLocation::default(),
        }
    }

    fn fixed(seconds: u64) -> RetryPolicy {
        RetryPolicy::Fixed(Duration::from_secs(seconds))
    }

    fn failure_policy(classifier: Option<Classifier>) -> FailurePolicy {
        let queues = HashMap::from([("slow".to_owned(), fixed(60))]);
        FailurePolicy { classifier, kinds: HashMap::new(), queues, default: fixed(1), conflicts: 2 }
    }

    fn later(seconds: u64) -> RetryDecision {
        RetryDecision::Later(Duration::from_secs(seconds))
    }

    #[test]
    fn the_job_decides_before_the_kind_before_the_queue_before_the_default() {
        let (failure_policy, error) = (failure_policy(None), JobError::new("no"));
        let (plain, kind) = (KindOptions::default(), KindOptions::default().retry(fixed(5)));
        assert_eq!(failure_policy.decide(&error, &job("default", 1), &plain, 0), later(1));
        assert_eq!(failure_policy.decide(&error, &job("slow", 1), &plain, 0), later(60));
        assert_eq!(failure_policy.decide(&error, &job("slow", 1), &kind, 0), later(5));
        let mut own = job("slow", 1);
        own.options.retry = Some(fixed(7));
        assert_eq!(failure_policy.decide(&error, &own, &kind, 0), later(7));
    }

    #[test]
    fn a_conflict_is_tried_again_at_once_until_it_is_an_ordinary_failure() {
        let (failure_policy, error) = (failure_policy(None), JobError::conflict("lost"));
        let decide = |conflicts| failure_policy.decide(&error, &job("default", 1), &KindOptions::default(), conflicts);
        assert_eq!((decide(0), decide(1), decide(2)), (RetryDecision::AtOnce, RetryDecision::AtOnce, later(1)));
    }

    /// A server that asks for no time at all would make its callers use up their attempts at once.
    #[test]
    fn a_delay_that_is_asked_for_bounds_the_policy_from_below() {
        let failure_policy = failure_policy(None);
        let decide = |advice| {
            let error = JobError::new("busy").advise(advice);
            failure_policy.decide(&error, &job("slow", 1), &KindOptions::default(), 0)
        };
        let seconds = Duration::from_secs;
        assert_eq!(decide(RetryAdvice::NotBefore(Duration::ZERO)), later(60));
        assert_eq!(decide(RetryAdvice::NotBefore(seconds(90))), later(90));
        assert_eq!(decide(RetryAdvice::After(seconds(7))), later(7), "the program's own decision");
        assert_eq!(JobError::retry_after("busy", seconds(7)).advice(), RetryAdvice::NotBefore(seconds(7)));
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
        let failure_policy = failure_policy(Some(never("executor")));
        let decide = |options: &KindOptions, message: &str| {
            failure_policy.decide(&JobError::new(message), &job("default", 1), options, 0)
        };
        let plain = KindOptions::default();
        assert_eq!((decide(&plain, "executor"), decide(&plain, "kind")), (RetryDecision::Never, later(1)));
        let own = KindOptions::default().classifier(never("kind"));
        assert_eq!((decide(&own, "executor"), decide(&own, "kind")), (later(1), RetryDecision::Never));
    }

    #[test]
    fn a_classifier_that_panics_has_no_say() {
        let failure_policy = failure_policy(Some(Classifier::new(|_, _| panic!("broken"))));
        let decided = failure_policy.decide(&JobError::fatal("no"), &job("default", 1), &KindOptions::default(), 0);
        assert_eq!(decided, RetryDecision::Never);
    }
}
