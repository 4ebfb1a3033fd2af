//! What happens when a task of the executor panics.
//!
//! Nothing in the engine should panic, but the program's code runs in it too, such as its log subscriber. A dead task would go unnoticed:
//! an executor without its lock monitor or a dispatcher looks healthy and does half of its work. A helper is restarted, all others go on,
//! and everything is checked once, because the helper may have taken a signal without acting on it. A task that may have claimed jobs
//! without starting them can't be restarted. Then the node ends, releases what it owns, and registers again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

use crate::backoff::Reconnect;
use crate::panic::text;

/// Longest pause before a helper that panicked is restarted. One that ran for longer than this is restarted soon.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Wraps a task that claims. If it panics, `refused` is cancelled, so that the node ends and registers again, and nothing is returned.
pub(crate) fn watched<T>(
    name: &'static str,
    refused: &CancellationToken,
    task: T,
) -> impl Future<Output = T::Output> + Send + use<T>
where
    T: Future<Output: Default> + Send,
{
    let refused = refused.clone();
    AssertUnwindSafe(task).catch_unwind().map(move |ended| {
        ended.unwrap_or_else(|panic| {
            refused.cancel();
            let panic = text(&*panic);
            log(|| {
                tracing::error!(
                    task = name,
                    panic,
                    "a task of the executor panicked; stopping all its work to register again"
                );
            });
            T::Output::default()
        })
    })
}

/// Runs a task, and restarts it after a pause whenever it panics, until `quit` or until `begin` returns `None`. `begin` gets whether it is a
/// restart.
pub(crate) async fn again<T: Future<Output = ()>>(
    name: &'static str,
    quit: CancellationToken,
    begin: impl Fn(bool) -> Option<T>,
) {
    let mut delays = Reconnect::new(LONGEST_PAUSE);
    let mut restarted = false;
    loop {
        let began = Instant::now();
        // Its beginning may panic too.
        let task = async {
            if let Some(task) = begin(restarted) {
                task.await;
            }
        };
        let Err(panic) = AssertUnwindSafe(task).catch_unwind().await else { return };
        restarted = true;
        if began.elapsed() > LONGEST_PAUSE {
            delays.reset();
        }
        let pause = delays.next_delay();
        let panic = text(&*panic);
        log(|| tracing::error!(task = name, panic, ?pause, "a task of the executor panicked; it begins again"));
        tokio::select! {
            () = quit.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Logs a panic. The program's subscriber may be what panicked, and may do so again.
fn log(event: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(event));
}
