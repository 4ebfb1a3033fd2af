//! Turns a panic in a handler into a failed attempt, with its location and, if `RUST_BACKTRACE` is set, its stack.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::task::Poll;

use crate::job::{HandlerResult, JobError};
use crate::panic::text;

thread_local! {
    /// Whether handler code is on this thread's stack.
    static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
    /// What the hook saw: the location and the stack.
    static SEEN: RefCell<Option<(String, Option<String>)>> = const { RefCell::new(None) };
}

/// Puts a hook in front of the application's own, because only a hook can see where a panic came from. It notes panics in handlers, which
/// are reported with their job, and passes all others on.
fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let next = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !IN_HANDLER.get() {
                next(info);
                return;
            }
            let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
            let stack = Backtrace::capture();
            let stack = (stack.status() == BacktraceStatus::Captured).then(|| stack.to_string());
            SEEN.set(Some((place, stack)));
        }));
    });
}

/// Runs the program's code and turns a panic into a failure.
pub(crate) fn catching<T>(run: impl FnOnce() -> T) -> Result<T, JobError> {
    install_hook();
    let before = IN_HANDLER.replace(true);
    // The state of a panicking handler is dropped with it: its future is never polled again, and its transaction is rolled back.
    let result = catch_unwind(AssertUnwindSafe(run));
    IN_HANDLER.set(before);
    result.map_err(|panic| failure(&*panic))
}

pub(crate) fn catching_blocking(run: impl FnOnce() -> HandlerResult) -> HandlerResult {
    catching(run).unwrap_or_else(Err)
}

/// Polls a handler and turns a panic into a failure.
pub(crate) async fn catching_async<T>(handler: impl Future<Output = Result<T, JobError>>) -> Result<T, JobError> {
    let mut handler = std::pin::pin!(handler);
    std::future::poll_fn(|cx| match catching(|| handler.as_mut().poll(cx)) {
        Ok(poll) => poll,
        Err(error) => Poll::Ready(Err(error)),
    })
    .await
}

fn failure(panic: &(dyn Any + Send)) -> JobError {
    let text = text(panic);
    let (place, stack) = SEEN.take().unwrap_or_else(|| ("an unknown place".to_owned(), None));
    let error = JobError::new(format!("the handler panicked at {place}: {text}"));
    match stack {
        Some(stack) => error.detail(stack),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Outcome;

    #[tokio::test]
    async fn a_panic_becomes_a_failure_that_names_its_place() {
        let ended = catching_async(async {
            tokio::task::yield_now().await;
            assert_eq!(1 + 1, 3, "sums");
            Ok(Outcome::Done)
        })
        .await;
        let error = ended.unwrap_err();
        assert!(error.message().contains("panic.rs:") && error.message().contains("sums"), "{error}");
        assert!(catching_async(async { Ok(Outcome::Done) }).await.is_ok());
    }
}
