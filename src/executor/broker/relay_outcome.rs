//! What became of a message that was to be relayed, and its record.

use std::time::Duration;

use crate::executor::broker::isolating_publisher::{Row, pause, refusal};
use crate::executor::metrics::stats::add;
use crate::executor::node::Node;
use crate::executor::node::completion::Completion;
use crate::store::{Settlement, Verdict};

/// What happens to a row.
pub(crate) enum RelayOutcome {
    /// It was published.
    Sent,
    /// It goes out later, at no attempt.
    Later,
    /// The broker refused it, for this reason. It is tried again if it has attempts left.
    Refused(String),
    /// It can't go out, for this reason.
    Never(String),
}

/// Records it.
pub(crate) async fn record(node: &Node, row: &Row, end: RelayOutcome) {
    let Row { fence, kind, attempt, to } = row;
    let settled = |verdict| Settlement::new(*fence, verdict);
    let report = match end {
        RelayOutcome::Sent => {
            add(&node.counters.relayed, 1);
            Completion::Done(*fence)
        }
        RelayOutcome::Later => Completion::Settled(settled(Verdict::Snooze(Duration::from_secs(1)))),
        RelayOutcome::Refused(why) => {
            let why = refusal(&why);
            tracing::warn!(id = %fence.id, %kind, attempt, "a message was not relayed: {why}");
            Completion::Settled(settled(Verdict::Retry(pause(*attempt))).error(&why, None))
        }
        RelayOutcome::Never(why) => {
            let to = to.as_deref().unwrap_or_default();
            tracing::warn!(id = %fence.id, %kind, to, "a message can't be relayed: {why}; it becomes a dead letter");
            Completion::Settled(settled(Verdict::Dead).error(&format!("{why}: {to:?}"), None))
        }
    };
    node.completions.send(report).await;
}
