//! What services of the program can't do to the rest: stay for ever, or take a job or a commit along when they panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures_util::FutureExt;

use super::{Handoff, MessageService, Written};
use crate::error::{Error, ErrorKind, Result};
use crate::panic::text;
use crate::store::{Store, kind_of};

/// A flush through services of the program, with a deadline. One that panics is dropped, and its transaction with it.
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

/// Tells of a commit. It stands, whatever becomes of that.
pub(crate) fn tell<S: Store>(service: &mut dyn MessageService<S>, written: Written) -> Handoff {
    let kept = written.kept.clone();
    catch_unwind(AssertUnwindSafe(|| service.committed(written))).unwrap_or_else(|panic| {
        tracing::error!(
            panic = text(&*panic),
            "a message service panicked when it heard of a commit: executors find the messages when they poll"
        );
        Handoff::default().kept_back(kept)
    })
}

impl Error {
    /// What a [message service](crate::MessageService) refuses a send or a flush with: `.map_err(Error::refused)?`.
    ///
    /// An error of this library stays what it is. One of a database driver that trying again may cure (a lost connection, a lost conflict)
    /// keeps its kind, so that the commit may be tried again. Of any other, or of a text, it makes one of [`ErrorKind::Refused`]. The error
    /// given is the source.
    pub fn refused(why: impl Into<crate::BoxError>) -> Self {
        let why = match why.into().downcast::<Self>() {
            Ok(error) => return *error,
            Err(why) => why,
        };
        let kind = kind_of(&*why).filter(|kind| kind.is_retryable()).unwrap_or(ErrorKind::Refused);
        Self::new(kind, format!("a message service refused: {why}")).with_source(why)
    }
}
