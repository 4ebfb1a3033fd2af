//! Publishing messages that may end the channel they are published on.
//!
//! A message that the broker can't parse ends the channel, and everything else on it goes unanswered too. The broker does not say which
//! message it was. So a message that went unanswered once is published alone, over a connection that nothing else uses: there it is known
//! which message was refused.

use std::collections::HashMap;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::broker::{Alone, Broker, Outgoing, Published};
use crate::executor::broker::mode::BATCH;
use crate::job::{Fence, Job, JobId, REPLY_TO};

/// The result of publishing a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PublishOutcome {
    /// The broker has it.
    Acked,
    /// No queue took it.
    Returned,
    /// The queue was full, it was not sent, or no answer came. It goes out later, and that costs no attempt.
    Later,
    /// The broker ended the channel or the connection because of it, for this reason. That costs an attempt.
    Refused(String),
}

/// What is still needed of a row once its payload has been published.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) fence: Fence,
    pub(crate) kind: String,
    pub(crate) attempt: u32,
    /// Where a reply goes.
    pub(crate) to: Option<String>,
}

impl Row {
    pub(crate) fn of(job: &Job) -> Self {
        let (kind, to) = (job.kind.clone(), job.headers.get(REPLY_TO).cloned());
        Self { fence: job.fence(), kind, attempt: job.attempt, to }
    }
}

/// Publishes for one queue, and remembers which of its messages went unanswered.
#[derive(Debug, Default)]
pub(crate) struct IsolatingPublisher {
    /// How often each of them got no answer when it was published alone.
    suspects: HashMap<JobId, u32>,
}

impl IsolatingPublisher {
    /// Publishes messages: first all new ones together, then each that went unanswered before alone, until a `stop`. Returns their
    /// outcomes, in their order.
    pub(crate) async fn publish(
        &mut self,
        broker: &Broker,
        messages: Vec<(JobId, Outgoing)>,
        stop: &CancellationToken,
    ) -> Vec<PublishOutcome> {
        let mut outcomes_of = vec![PublishOutcome::Later; messages.len()];
        let (mut together, mut alone) = (Vec::new(), Vec::new());
        for (at, (id, message)) in messages.into_iter().enumerate() {
            let part = if self.suspects.contains_key(&id) { &mut alone } else { &mut together };
            part.push((at, id, message));
        }
        let places: Vec<_> = together.iter().map(|(at, id, _)| (*at, *id)).collect();
        let outcomes = broker.publish(together.into_iter().map(|(_, _, message)| message).collect()).await;
        for ((at, id), outcome) in places.into_iter().zip(outcomes) {
            outcomes_of[at] = self.outcome_of(id, outcome);
        }
        // One without an answer ends the series, so the next series must not begin with it.
        alone.sort_by_key(|(_, id, _)| self.suspects.get(id).copied());
        let mut isolated = broker.isolated();
        for (at, id, message) in alone {
            if stop.is_cancelled() {
                break;
            }
            outcomes_of[at] = match isolated.publish(&message).await {
                Alone::Answered(outcome) => self.outcome_of(id, outcome),
                Alone::Refused(why) => PublishOutcome::Refused(why),
            };
        }
        isolated.close().await;
        outcomes_of
    }

    fn outcome_of(&mut self, id: JobId, outcome: Published) -> PublishOutcome {
        match outcome {
            Published::Acked | Published::Returned => {
                self.suspects.remove(&id);
                if outcome == Published::Acked { PublishOutcome::Acked } else { PublishOutcome::Returned }
            }
            Published::Nacked | Published::NotSent => PublishOutcome::Later,
            Published::Unknown => {
                // Other nodes may have sent some of them since. Forgetting one costs a channel.
                if self.suspects.len() >= 10 * BATCH {
                    self.suspects.clear();
                }
                *self.suspects.entry(id).or_default() += 1;
                PublishOutcome::Later
            }
        }
    }
}

/// Returns the error recorded for an attempt that the broker refused.
pub(crate) fn refusal(why: &str) -> String {
    format!("the broker refused the message, and ended the channel or connection on which it came: {why}")
}

/// Returns how long to wait after an attempt that the broker refused.
pub(crate) fn pause(attempt: u32) -> Duration {
    Duration::from_secs(1 << attempt.saturating_sub(1).min(6))
}
