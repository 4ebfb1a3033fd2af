//! Receives hints of work that other processes sent.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::backoff::Reconnect;
use crate::error::warn_of;
use crate::message::local::LocalExecutor;
use crate::store::{Enqueue, Hint};

/// Listens until `quit`. After each break it listens again, and assumes that it missed a hint.
pub(crate) async fn run(store: Arc<dyn Enqueue>, executor: Weak<dyn LocalExecutor>, quit: CancellationToken) {
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
            warn_of!(error, "not listening for hints at the moment; polling meanwhile");
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
