//! Publishing what may end the channel it is published on.
//!
//! A message that the broker does not take for what it is ends the channel, and everything else on it is unanswered too. Which one it was the
//! broker does not say. So what was unanswered once is published by itself, where only its own doing counts against it.

use std::collections::HashSet;
use std::time::Duration;

use super::BATCH;
use crate::broker::{Broker, Outgoing, Published};
use crate::job::{Fence, Job, JobId, REPLY_TO};

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The broker has it.
    Acked,
    /// No queue took it.
    Returned,
    /// It was refused, not sent, or unanswered together with others: again, at no attempt.
    Later,
    /// It was unanswered all by itself: that costs an attempt.
    Unanswered,
}

/// What is needed of a row whose payload has gone out.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) fence: Fence,
    pub(super) kind: String,
    pub(super) attempt: u32,
    /// Of a reply.
    pub(super) to: Option<String>,
}

impl Row {
    pub(super) fn of(job: &Job) -> Self {
        let (kind, to) = (job.kind.clone(), job.headers.get(REPLY_TO).cloned());
        Self { fence: job.fence(), kind, attempt: job.attempt, to }
    }
}

/// Who publishes for one queue, and remembers which of its messages were unanswered.
#[derive(Debug, Default)]
pub(super) struct Singly {
    suspects: HashSet<JobId>,
}

impl Singly {
    /// Those that were unanswered before each by itself, after all others together. What became of them, in their order.
    pub(super) async fn publish(&mut self, broker: &Broker, messages: Vec<(JobId, Outgoing)>) -> Vec<Fate> {
        let mut fates = vec![Fate::Later; messages.len()];
        let (mut together, mut alone) = (Vec::new(), Vec::new());
        for (at, (id, message)) in messages.into_iter().enumerate() {
            let part = if self.suspects.contains(&id) { &mut alone } else { &mut together };
            part.push((at, id, message));
        }
        let places: Vec<_> = together.iter().map(|(at, id, _)| (*at, *id)).collect();
        let outcomes = broker.publish(together.into_iter().map(|(_, _, message)| message).collect()).await;
        for ((at, id), outcome) in places.into_iter().zip(outcomes) {
            fates[at] = self.fate(id, outcome, false);
        }
        for (at, id, message) in alone {
            let outcome = broker.publish(vec![message]).await.pop().unwrap_or(Published::NotSent);
            fates[at] = self.fate(id, outcome, true);
            // The channel is gone, and there is a pause before the next one.
            if fates[at] == Fate::Unanswered {
                break;
            }
        }
        fates
    }

    fn fate(&mut self, id: JobId, outcome: Published, alone: bool) -> Fate {
        match outcome {
            Published::Acked | Published::Returned => {
                self.suspects.remove(&id);
                if outcome == Published::Acked { Fate::Acked } else { Fate::Returned }
            }
            Published::Nacked | Published::NotSent => Fate::Later,
            Published::Unknown if alone => Fate::Unanswered,
            Published::Unknown => {
                // Others may have sent some of them since; forgetting one costs a channel.
                if self.suspects.len() >= 10 * BATCH {
                    self.suspects.clear();
                }
                self.suspects.insert(id);
                Fate::Later
            }
        }
    }
}

/// Why an attempt was spent.
pub(super) const UNANSWERED: &str =
    "the broker gave no answer to it: it may have ended the channel it was published on";

/// How long to wait after an attempt that the broker did not answer.
pub(super) fn pause(attempt: u32) -> Duration {
    Duration::from_secs(1 << attempt.saturating_sub(1).min(6))
}
