use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::conflict::is_conflict;

/// How a handler ended without an error. Only [`Outcome::Done`] commits what the handler did through its context; all others roll it back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The work is done. The handler's writes, the messages it sent and the removal of its job commit together.
    Done,
    /// Try again according to the retry policy. Costs an attempt.
    Retry,
    /// Not now: run again after this long. Costs no attempt.
    Snooze(Duration),
    /// No longer wanted, for this reason: the job is removed.
    Cancel(String),
    /// Can never succeed, for this reason: the job becomes a dead letter at once.
    Dead(String),
}

impl From<()> for Outcome {
    fn from((): ()) -> Self {
        Self::Done
    }
}

/// Whether and when a failed job is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryAdvice {
    /// After the delay of the kind's retry policy.
    ByPolicy,
    /// After the delay of the kind's retry policy, and not before this long (HTTP's `Retry-After`). A peer that asks for no time, or too
    /// little, does not make the attempts follow one another faster than the policy does.
    NotBefore(Duration),
    /// After exactly this long, whatever the policy says.
    After(Duration),
    /// At once: it lost a conflict with another transaction, and nothing else is wrong. The handler's transaction is rolled back and the
    /// handler runs again within the same attempt, a few times. After that it is an ordinary failure.
    Conflict,
    /// Not on this node: it can't run jobs of this kind at the moment, which is no fault of the job. The job is given back, costs no
    /// attempt, and may run on another node at once. This node leaves the kind alone for a while: for a second at first, and each time
    /// longer, up to a minute. A job that gives this advice again and again while others of its kind run here is itself the cause. Then it
    /// has failed, and is retried by policy.
    NotHere,
    /// Never: the job becomes a dead letter at once.
    Never,
}

/// Why a handler failed, and whether a retry makes sense.
///
/// Any error converts into one that is retried by policy, so `?` works in handlers. It works on every type that converts into a boxed error
/// that is [`Send`] and [`Sync`], such as `anyhow::Error`. [`JobError::fatal`], [`JobError::retry_after`] and [`JobError::not_here`] say
/// otherwise. An error caused by a conflict in the database (a serialization failure or a deadlock of PostgreSQL, a busy SQLite) becomes a
/// [`RetryAdvice::Conflict`]. `JobError` is not itself a [`std::error::Error`], and `?` can't box it: only that makes the conversion
/// possible (as in `anyhow`).
#[derive(Clone)]
pub struct JobError {
    message: String,
    /// Causes, a stack trace, or the last lines of a program's stderr.
    detail: Option<String>,
    advice: RetryAdvice,
    /// The error that it was made of, for a classifier.
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl JobError {
    /// Creates a failure that is retried by policy.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), detail: None, advice: RetryAdvice::ByPolicy, source: None }
    }

    /// Creates a failure that no further attempt can cure.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self { advice: RetryAdvice::Never, ..Self::new(message) }
    }

    /// Creates a failure that is retried by policy, and not before this long: whichever is later. `.advise(RetryAdvice::After(delay))` says
    /// exactly when instead.
    pub fn retry_after(message: impl Into<String>, delay: Duration) -> Self {
        Self { advice: RetryAdvice::NotBefore(delay), ..Self::new(message) }
    }

    /// Creates the failure of a node that can't run jobs of this kind at the moment: something it needs is missing on this machine. See
    /// [`RetryAdvice::NotHere`].
    pub fn not_here(message: impl Into<String>) -> Self {
        Self { advice: RetryAdvice::NotHere, ..Self::new(message) }
    }

    /// Creates a conflict with another transaction: the handler runs again at once. See [`RetryAdvice::Conflict`].
    pub fn conflict(message: impl Into<String>) -> Self {
        Self { advice: RetryAdvice::Conflict, ..Self::new(message) }
    }

    /// Changes when the job is retried.
    #[must_use]
    pub fn advise(mut self, advice: RetryAdvice) -> Self {
        self.advice = advice;
        self
    }

    /// Adds text that helps to find the cause: a stack trace, the end of a log. It is stored with the attempt, cut to 4 KiB.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Converts any error with its causes. It is retried by policy, or at once if it is a conflict in the database. `?` does this too,
    /// except for errors that are not `Send` and `Sync`: `.map_err(|e| JobError::from_error(&e))`.
    pub fn from_error(error: &(dyn StdError + 'static)) -> Self {
        let mut causes = String::new();
        let mut source = error.source();
        while let Some(cause) = source {
            causes.push_str("caused by: ");
            causes.push_str(&cause.to_string());
            causes.push('\n');
            source = cause.source();
        }
        Self {
            message: error.to_string(),
            detail: (!causes.is_empty()).then_some(causes),
            advice: if is_conflict(error) { RetryAdvice::Conflict } else { RetryAdvice::ByPolicy },
            source: None,
        }
    }

    /// Returns the error of this type that `?` converted, or the first of this type among its causes: for a
    /// [classifier](crate::ExecutorBuilder::classify). `None` for errors that were made of a text or by [`from_error`](Self::from_error), and for the outermost
    /// error in an `anyhow::Error`, whose type that hides. It is not stored with the attempt.
    ///
    /// ```
    /// # use jobwright::{JobError, RetryAdvice};
    /// # #[derive(Debug)]
    /// # enum ShopError { UnknownCustomer }
    /// # impl std::fmt::Display for ShopError {
    /// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str("unknown customer") }
    /// # }
    /// # impl std::error::Error for ShopError {}
    /// let advice = |error: &JobError| match error.downcast_ref() {
    ///     Some(ShopError::UnknownCustomer) => RetryAdvice::Never,
    ///     None => error.advice(),
    /// };
    /// assert_eq!(advice(&JobError::from(ShopError::UnknownCustomer)), RetryAdvice::Never);
    /// assert_eq!(advice(&JobError::new("no connection")), RetryAdvice::ByPolicy);
    /// ```
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        let mut error: &(dyn StdError + 'static) = &**self.source.as_ref()?;
        loop {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            error = error.source()?;
        }
    }

    /// Returns the error in one line.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the text that helps to find the cause.
    pub fn detail_text(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// Returns whether and when the job is retried.
    pub fn advice(&self) -> RetryAdvice {
        self.advice
    }
}

/// Converts errors, boxed errors, `anyhow::Error` and similar types, and texts.
impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for JobError {
    fn from(error: E) -> Self {
        let error: Box<dyn StdError + Send + Sync> = error.into();
        let told = Self::from_error(&*error);
        Self { source: Some(error.into()), ..told }
    }
}

impl fmt::Debug for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.message, self.advice)
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The result of one attempt.
pub(crate) type HandlerResult = Result<Outcome, JobError>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_error_converts_and_keeps_its_causes() {
        #[derive(Debug)]
        struct Outer(std::num::ParseIntError);
        impl fmt::Display for Outer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("order is unreadable")
            }
        }
        impl StdError for Outer {
            fn source(&self) -> Option<&(dyn StdError + 'static)> {
                Some(&self.0)
            }
        }
        let fails = || -> Result<Outcome, JobError> { Err(Outer("x".parse::<i32>().unwrap_err()))? };
        let error = fails().unwrap_err();
        assert_eq!(error.message(), "order is unreadable");
        assert_eq!(error.detail_text(), Some("caused by: invalid digit found in string\n"));
        assert_eq!(error.advice(), RetryAdvice::ByPolicy);
        assert_eq!(JobError::fatal("no").advice(), RetryAdvice::Never);

        let boxed: Box<dyn StdError> = "plain".into();
        assert_eq!(JobError::from_error(&*boxed).message(), "plain");
    }

    #[test]
    fn the_type_of_an_error_is_kept_for_classifiers() {
        let number = || "x".parse::<i32>().unwrap_err();
        let wrapped = crate::Error::new(crate::ErrorKind::Database, "no total").with_source(number());
        for error in [
            JobError::from(number()),
            JobError::from(wrapped),
            JobError::from(anyhow::Error::from(number()).context("no")),
        ] {
            assert!(error.clone().downcast_ref::<std::num::ParseIntError>().is_some(), "{error}");
            assert!(error.downcast_ref::<fmt::Error>().is_none());
        }
        assert!(JobError::new("no").downcast_ref::<fmt::Error>().is_none());
    }

    /// Built like `anyhow::Error`, `eyre::Report` and similar types: not an error itself, but convertible into a boxed one.
    #[test]
    fn boxed_errors_convert_with_their_causes() {
        struct Report(crate::Error);
        impl From<Report> for Box<dyn StdError + Send + Sync> {
            fn from(report: Report) -> Self {
                report.0.into()
            }
        }
        let cause = || "x".parse::<i32>().unwrap_err();
        let source = || crate::Error::new(crate::ErrorKind::Database, "no total").with_source(cause());
        let report = || -> Result<Outcome, JobError> { Err(Report(source()))? };
        let boxed = || -> Result<Outcome, JobError> { Err(Box::<dyn StdError + Send + Sync>::from(source()))? };
        for error in [report().unwrap_err(), boxed().unwrap_err()] {
            assert!(error.message().contains("no total"), "{error}");
            assert_eq!(error.detail_text(), Some("caused by: invalid digit found in string\n"));
        }
        let text = || -> Result<Outcome, JobError> { Err("plain")? };
        assert_eq!(text().unwrap_err().message(), "plain");
        // A handler's own failure stays what it is.
        let same = || -> Result<Outcome, JobError> { Err(JobError::fatal("no"))? };
        assert_eq!(same().unwrap_err().advice(), RetryAdvice::Never);
    }
}
