//! Receives hints of work that other processes sent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::backoff::Reconnect;
use crate::error::warn_of;
use crate::executor::node::failing::TaskState;
use crate::message::local::LocalExecutor;
use crate::store::{Enqueue, Hint};

/// Its failure, for the log and for the node's row.
pub(crate) const FAILED: &str = "the node could not listen for hints";

/// Listens until `quit`. After each break it listens again, and assumes that it missed a hint. Keeps in `hears` whether it listens.
pub(crate) async fn run(
    store: Arc<dyn Enqueue>,
    executor: Weak<dyn LocalExecutor>,
    hears: Arc<AtomicBool>,
    mut state: TaskState,
    quit: CancellationToken,
) {
    let listen = async {
        let mut delays = Reconnect::new(Duration::from_secs(10));
        loop {
            let error = match store.listen().await {
                Ok(None) => {
                    tracing::info!("this store has no hints between processes here; polling");
                    return;
                }
                Ok(Some(mut hints)) => {
                    delays.reset();
                    state.succeeded();
                    hears.store(true, Ordering::Relaxed);
                    if let Some(executor) = executor.upgrade() {
                        executor.poll();
                    }
                    loop {
                        match hints.next().await {
                            Ok(hint) => tell(&executor, &hint),
                            Err(error) => break error,
                        }
                    }
                }
                Err(error) => error,
            };
            hears.store(false, Ordering::Relaxed);
            warn_of!(error, "{FAILED}; polling meanwhile");
            state.failed(&error);
            tokio::time::sleep(delays.next_delay()).await;
        }
    };
    tokio::select! {
        () = quit.cancelled() => {}
        () = listen => {}
    }
}

fn tell(executor: &Weak<dyn LocalExecutor>, hint: &Hint) {
    if let Some(executor) = executor.upgrade() {
        executor.hint(hint);
    }
}
