//! How a stop ends the tasks that record what the broker delivers.

use std::pin::Pin;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::executor::node::cancellations::LET_GO;

/// How long a call to the store may go on after a stop.
const DECIDED: Duration = Duration::from_secs(2);
const _: () = assert!(DECIDED.as_secs() < LET_GO.as_secs());

/// Runs a task that ends by itself between two calls to the store once the node stops.
///
/// A call that is in progress is awaited for up to 2 s. It may have been committed, and then the messages must be acked, counted, and the
/// waiting clients and executors told. If there is no answer by then, the broker delivers the messages again, and the store refuses a report that it
/// has recorded.
pub(crate) async fn between_calls(stop: &CancellationToken, task: Pin<Box<dyn Future<Output = ()> + Send + '_>>) {
    tokio::select! {
        biased;
        () = task => {}
        () = after(stop, DECIDED) => {}
    }
}

/// Completes `patience` after a stop.
pub(crate) async fn after(stop: &CancellationToken, patience: Duration) {
    stop.cancelled().await;
    tokio::time::sleep(patience).await;
}
