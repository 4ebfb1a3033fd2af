//! Ends the context of a call that commits nothing.

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, OptionFuture};

use crate::context::Context;
use crate::executor::panic::{catching, catching_async};
use crate::job::JobError;
use crate::store::Store;

/// Ends the context of a handler that returned and commits nothing. Its transaction is rolled back here, so that its locks do not outlive the
/// outcome.
///
/// On the heap, where it is needed at all: most jobs use no context, and the future of every job would be larger by this.
pub(crate) fn discard<S: Store>(context: Context<S>) -> OptionFuture<BoxFuture<'static, ()>> {
    let ended = context.is_used().then(|| {
        async move {
            // The program's message services are dropped too. A panic of theirs must not leave the job with this node.
            match catching_async(async { Ok(context.rollback().await) }).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::debug!(%error, "the handler's transaction was not rolled back cleanly");
                }
                Err(panic) => log_drop(&panic),
            }
        }
        .boxed()
    });
    ended.into()
}

/// Does the same for a handler that did not return. It may have left a statement that runs for long, which a rollback would wait for, so the
/// transaction is dropped: that cancels the statement. On a connection of sqlx, which can't cancel, the connection is closed after
/// [`call_timeout`](crate::DatabaseConfig::call_timeout), and the server goes on until the statement ends.
pub(crate) fn abandon<S: Store>(context: Context<S>) {
    if let Err(panic) = catching(|| drop(context)) {
        log_drop(&panic);
    }
}

fn log_drop(panic: &JobError) {
    tracing::warn!(error = panic.message(), "a message service panicked when it was dropped without a commit");
}
