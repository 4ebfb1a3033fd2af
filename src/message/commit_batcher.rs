//! Writes the messages of concurrent contexts together, in one statement.
//!
//! A context that opened no transaction writes its messages with a single statement, which is its own commit, and a commit waits for the
//! disk. When many contexts do so at once, all of them wait for the disk. So at most two of these statements are in flight. Contexts that
//! come meanwhile wait, and when one statement ends, the next one writes the messages of all that wait. A lone sender notices none of this.
//!
//! Each context still gets the result of its own messages only. If the database refuses a batch, each context's messages are written
//! separately, and only those at fault fail.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind, Result};
use crate::job::JobMessage;
use crate::store::statement_size::{ByteBudget, message_size};
use crate::store::{Enqueue, Inserted};

/// Statements in flight at the same time. With one, the server is idle while the client prepares the next.
const MAX_IN_FLIGHT: usize = 2;
/// A context that sends more messages than this already is a batch.
const SMALL: usize = 50;
/// A payload of more bytes is not worth copying.
const MAX_PAYLOAD: usize = 16 * 1024;
/// Most messages that are written together.
const MAX_BATCH: usize = 1000;

/// Combines the inserts of the contexts of one program.
pub(super) struct CommitBatcher {
    jobs: Arc<dyn Enqueue>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    in_flight: usize,
    waiting: VecDeque<QueuedInsert>,
}

/// Messages of one context, until they are written. If the receiver was dropped, they are not to be written.
struct QueuedInsert {
    messages: Vec<JobMessage>,
    answer: oneshot::Sender<Result<Inserted>>,
}

impl CommitBatcher {
    pub(super) fn new(jobs: Arc<dyn Enqueue>) -> Arc<Self> {
        Arc::new(Self { jobs, state: Mutex::default() })
    }

    /// Writes messages, in a transaction of their own or together with those of other contexts.
    ///
    /// If this future is dropped while the messages are queued, nothing is written. If it is dropped later, the outcome is unknown.
    pub(super) async fn insert(self: &Arc<Self>, messages: &[JobMessage]) -> Result<Inserted> {
        if !fits(messages) {
            return self.jobs.insert(messages, None).await;
        }
        match self.join(messages) {
            Joined::Leader(commit) => {
                let inserted = self.jobs.insert(messages, None).await;
                drop(commit);
                inserted
            }
            Joined::Follower(answer) => answer.await.unwrap_or_else(|_| {
                Err(Error::new(
                    ErrorKind::CommitUnknown,
                    "the runtime is shutting down while the job messages are being committed with those of others",
                ))
            }),
        }
    }

    fn join(self: &Arc<Self>, messages: &[JobMessage]) -> Joined {
        let mut state = self.lock();
        if state.in_flight < MAX_IN_FLIGHT {
            state.in_flight += 1;
            return Joined::Leader(CommitInFlight(Arc::clone(self)));
        }
        let (answer, heard) = oneshot::channel();
        state.waiting.push_back(QueuedInsert { messages: messages.to_vec(), answer });
        Joined::Follower(heard)
    }

    /// Takes as many waiting inserts as fit into one statement. If there are none, the commit in flight is over.
    fn next(&self) -> Vec<QueuedInsert> {
        let mut state = self.lock();
        let (mut batch, mut count, mut budget) = (Vec::new(), 0, ByteBudget::default());
        while let Some(waiting) = state.waiting.pop_front() {
            if waiting.answer.is_closed() {
                continue;
            }
            if !budget.takes(waiting.messages.iter().map(message_size).sum()) {
                state.waiting.push_front(waiting);
                break;
            }
            count += waiting.messages.len();
            batch.push(waiting);
            if count + SMALL > MAX_BATCH {
                break;
            }
        }
        if batch.is_empty() {
            state.in_flight -= 1;
        }
        batch
    }

    async fn write(&self, batch: Vec<QueuedInsert>) {
        let (mut all, mut answers) = (Vec::with_capacity(MAX_BATCH), Vec::with_capacity(batch.len()));
        for QueuedInsert { messages, answer } in batch {
            let from = all.len();
            all.extend(messages);
            answers.push((from..all.len(), answer));
        }
        let failed = match self.jobs.insert(&all, None).await {
            Ok(_) => None,
            // A retryable error concerns all of them alike.
            Err(error) if error.is_retryable() || answers.len() == 1 => Some(error),
            Err(_) => return self.write_each(&all, answers).await,
        };
        for (part, answer) in answers {
            // A context that was dropped meanwhile has no receiver.
            let _ = answer.send(match &failed {
                None => Ok(Inserted { rows: part.len() as u64, ..Inserted::default() }),
                Some(error) => Err(error.for_another()),
            });
        }
    }

    /// Writes the inserts one by one, because the database refused something in the batch. If it stops answering meanwhile, the rest fails
    /// at once.
    async fn write_each(&self, all: &[JobMessage], answers: Vec<(Range<usize>, oneshot::Sender<Result<Inserted>>)>) {
        let mut down = false;
        for (part, answer) in answers {
            let written = if down {
                let why = "the job messages were not written: the database stopped answering while those of others were; try again";
                Err(Error::new(ErrorKind::Unreachable, why).keeping_nothing())
            } else {
                self.jobs.insert(&all[part], None).await
            };
            // A lost conflict concerns that context alone.
            down |= written.as_ref().is_err_and(|error| error.is_retryable() && error.kind() != ErrorKind::Aborted);
            let _ = answer.send(written);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Joined {
    Leader(CommitInFlight),
    Follower(oneshot::Receiver<Result<Inserted>>),
}

/// A statement in flight. When it ends, in whatever way, the next one begins. It gets its own task, because no context's result may depend
/// on another context that gives up.
struct CommitInFlight(Arc<CommitBatcher>);

impl Drop for CommitInFlight {
    fn drop(&mut self) {
        let batch = self.0.next();
        if batch.is_empty() {
            return;
        }
        let commit = Self(Arc::clone(&self.0));
        // Without a runtime nothing can write. The waiting contexts get an error, because their batch is dropped.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                commit.0.write(batch).await;
                drop(commit);
            });
        }
    }
}

/// Whether messages may be written with those of others. They may not if their outcome depends on existing rows.
fn fits(messages: &[JobMessage]) -> bool {
    messages.len() <= SMALL
        && messages.iter().all(|message| {
            !message.id_given && message.options.unique.is_none() && message.payload.as_bytes().len() <= MAX_PAYLOAD
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobId, Limits, NewJob, Unique};

    /// Their outcome depends on existing rows, so a batch of several senders could not say whose message was kept.
    #[test]
    fn given_ids_and_unique_jobs_are_written_alone() {
        let message = |job: NewJob| job.validate(Limits::default()).unwrap();
        let plain = || NewJob::json("kind", &1);
        assert!(fits(&[message(plain()), message(plain())]));
        assert!(!fits(&[message(plain()), message(plain().id(JobId::new()))]));
        assert!(!fits(&[message(plain().unique(Unique::key("k"))), message(plain())]));
        assert!(!fits(&[message(NewJob::json("kind", &"x".repeat(MAX_PAYLOAD)))]));
        assert!(!fits(&(0..=SMALL).map(|_| message(plain())).collect::<Vec<_>>()));
    }
}
