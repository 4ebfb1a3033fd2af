//! What a sender does when a queue is full.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::Result;
use crate::job::JobMessage;
use crate::store::queue_capacity::queues;
use crate::store::{Enqueue, FullQueue};

/// First and longest pause between two checks of a full queue.
const LOOK: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(500));

/// What a commit does when a queue holds as many waiting jobs as its rule allows ([`Rule::depth`](crate::store::Rule::depth)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenFull {
    /// The commit fails with [`ErrorKind::Full`](crate::ErrorKind::Full), and nothing is kept.
    #[default]
    Refuse,
    /// The commit waits for capacity before it writes its messages, at most this long; then it fails likewise. A transaction that is open
    /// meanwhile keeps its locks. On SQLite, a context that has opened its transaction does not wait: no other connection could write and
    /// free capacity.
    Wait(Duration),
}

/// Returns when the queues have capacity for the messages. `locked`: a transaction is open meanwhile.
pub(crate) async fn wait_for_capacity(
    store: &dyn Enqueue,
    messages: &[JobMessage],
    when_full: WhenFull,
    locked: bool,
) -> Result<()> {
    let queues = queues(messages);
    if queues.is_empty() {
        return Ok(());
    }
    let begun = Instant::now();
    let mut pause = LOOK.0;
    loop {
        let full: Vec<FullQueue> = store.full(&queues).await?;
        let Some(first) = full.first() else { return Ok(()) };
        let left = match when_full {
            WhenFull::Wait(patience) if !(locked && store.is_single_writer()) => {
                patience.saturating_sub(begun.elapsed())
            }
            _ => Duration::ZERO,
        };
        if left.is_zero() {
            return Err(first.error());
        }
        tokio::time::sleep(pause.min(left)).await;
        pause = (pause * 2).min(LOOK.1);
    }
}
