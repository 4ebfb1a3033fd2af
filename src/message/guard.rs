//! Protects the rest from custom message services that hang, or that panic and would take a job or a commit with them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures_util::FutureExt;

use super::{CommitReceipt, MessageService, Written};
use crate::error::{Error, ErrorKind, Result};
use crate::panic::text;
use crate::store::{Store, kind_of};

/// Runs a flush through custom services with a deadline. A service that panics is dropped, together with its transaction.
pub(crate) async fn flush_within(
    limit: Duration,
    flush: impl Future<Output = Result<Written>> + Send,
) -> Result<Written> {
    match tokio::time::timeout(limit, AssertUnwindSafe(flush).catch_unwind()).await {
        Ok(Ok(written)) => written,
        Ok(Err(panic)) => {
            Err(Error::new(ErrorKind::Refused, format!("a message service panicked in its flush: {}", text(&*panic))))
        }
        Err(_) => Err(Error::new(
            ErrorKind::Timeout,
            format!(
                "the message services of the program did not flush within {limit:?} (twice `database.call_timeout`)"
            ),
        )),
    }
}

/// Notifies the services of a commit. The commit stands, whatever they do.
pub(crate) fn notify_committed<S: Store>(service: &mut dyn MessageService<S>, written: Written) -> CommitReceipt {
    let duplicates = written.duplicates.clone();
    catch_unwind(AssertUnwindSafe(|| service.committed(written))).unwrap_or_else(|panic| {
        tracing::error!(
            panic = text(&*panic),
            "a message service panicked when it heard of a commit: executors find the messages when they poll"
        );
        CommitReceipt::default().with_duplicates(duplicates)
    })
}

impl Error {
    /// Makes the error with which a [message service](crate::MessageService) refuses a send or a flush: `.map_err(Error::refused)?`.
    ///
    /// An error of this library stays as it is. A retryable error of a database driver (a lost connection, a lost conflict) keeps its kind,
    /// so that the commit may be tried again. Any other error, or a text, becomes [`ErrorKind::Refused`] with the given error as its
    /// source.
    pub fn refused(why: impl Into<crate::BoxError>) -> Self {
        let why = match why.into().downcast::<Self>() {
            Ok(error) => return *error,
            Err(why) => why,
        };
        let kind = kind_of(&*why).filter(|kind| kind.is_retryable()).unwrap_or(ErrorKind::Refused);
        Self::new(kind, format!("a message service refused: {why}")).with_source(why)
    }
}
