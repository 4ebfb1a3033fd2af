//! What several contexts send at the same time, written together.
//!
//! A context that opened no transaction writes its messages with one statement that is a commit of its own, and a commit waits for
//! the disk. When many do so at once, the disk is what they all wait for. So at most two of these statements are under way; who comes
//! meanwhile waits, and when one ends, all who wait are written with the next. A lone sender notices nothing of it.
//!
//! Each still hears of its own messages alone: if the database refuses what was written together, each is written by itself, and only
//! the one that is at fault fails.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::error::{Error, ErrorKind, Result};
use crate::job::JobMessage;
use crate::store::weight::{Room, weight};
use crate::store::{Inserted, JobStore};

/// Statements under way at the same time. With one, the server has nothing to do while the client prepares the next.
const FLIGHTS: usize = 2;
/// A context that sends more messages than this is a batch already.
const SMALL: usize = 50;
/// A payload of more bytes is not worth a copy.
const SHORT: usize = 16 * 1024;
/// Messages that are written together.
const MOST: usize = 1000;

/// Where contexts of one program meet.
pub(super) struct Together {
    jobs: Arc<dyn JobStore>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    flights: usize,
    waiting: VecDeque<Waiting>,
}

/// Messages of one context, until they are written. Who no longer listens does not want them to be.
struct Waiting {
    messages: Vec<JobMessage>,
    answer: oneshot::Sender<Result<Inserted>>,
}

impl Together {
    pub(super) fn new(jobs: Arc<dyn JobStore>) -> Arc<Self> {
        Arc::new(Self { jobs, state: Mutex::default() })
    }

    /// Writes messages, in a transaction of their own or in one with those of others.
    ///
    /// Dropped while it waits for others, nothing is written; after that, nobody knows.
    pub(super) async fn insert(self: &Arc<Self>, messages: &[JobMessage]) -> Result<Inserted> {
        if !fits(messages) {
            return self.jobs.insert(messages, None).await;
        }
        match self.board(messages) {
            Boarded::First(flight) => {
                let inserted = self.jobs.insert(messages, None).await;
                drop(flight);
                inserted
            }
            Boarded::Next(answer) => answer.await.unwrap_or_else(|_| {
                Err(Error::new(ErrorKind::Unreachable, "can't insert job messages: the runtime is shutting down"))
            }),
        }
    }

    fn board(self: &Arc<Self>, messages: &[JobMessage]) -> Boarded {
        let mut state = self.lock();
        if state.flights < FLIGHTS {
            state.flights += 1;
            return Boarded::First(Flight(Arc::clone(self)));
        }
        let (answer, heard) = oneshot::channel();
        state.waiting.push_back(Waiting { messages: messages.to_vec(), answer });
        Boarded::Next(heard)
    }

    /// Those who wait, as far as they go together. Nobody: the flight is over.
    fn next(&self) -> Vec<Waiting> {
        let mut state = self.lock();
        let (mut batch, mut count, mut room) = (Vec::new(), 0, Room::default());
        while let Some(waiting) = state.waiting.pop_front() {
            if waiting.answer.is_closed() {
                continue;
            }
            if !room.takes(waiting.messages.iter().map(weight).sum()) {
                state.waiting.push_front(waiting);
                break;
            }
            count += waiting.messages.len();
            batch.push(waiting);
            if count + SMALL > MOST {
                break;
            }
        }
        if batch.is_empty() {
            state.flights -= 1;
        }
        batch
    }

    async fn write(&self, batch: Vec<Waiting>) {
        let (mut all, mut answers) = (Vec::with_capacity(MOST), Vec::with_capacity(batch.len()));
        for Waiting { messages, answer } in batch {
            let from = all.len();
            all.extend(messages);
            answers.push((from..all.len(), answer));
        }
        let failed = match self.jobs.insert(&all, None).await {
            Ok(_) => None,
            // What is the matter with one of them is the matter with all.
            Err(error) if error.is_retryable() || answers.len() == 1 => Some(error),
            Err(_) => return self.write_each(&all, answers).await,
        };
        for (part, answer) in answers {
            // Who left meanwhile does not want to know.
            let _ = answer.send(match &failed {
                None => Ok(Inserted { rows: part.len() as u64, ..Inserted::default() }),
                Some(error) => Err(error.for_another()),
            });
        }
    }

    /// One by one: the database refused something of them. If it stops answering meanwhile, the rest does not wait to find that out.
    async fn write_each(&self, all: &[JobMessage], answers: Vec<(Range<usize>, oneshot::Sender<Result<Inserted>>)>) {
        let mut down = false;
        for (part, answer) in answers {
            let written = if down {
                let why = "the job messages were not written: the database stopped answering while those of others were; try again";
                Err(Error::new(ErrorKind::Unreachable, why))
            } else {
                self.jobs.insert(&all[part], None).await
            };
            // A conflict that was lost is that one's own.
            down |= written.as_ref().is_err_and(|error| error.is_retryable() && error.kind() != ErrorKind::Aborted);
            let _ = answer.send(written);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Boarded {
    First(Flight),
    Next(oneshot::Receiver<Result<Inserted>>),
}

/// A statement under way. When it ends, however it does, the next one begins: in a task of its own, because nobody's answer may depend
/// on who else gives up.
struct Flight(Arc<Together>);

impl Drop for Flight {
    fn drop(&mut self) {
        let batch = self.0.next();
        if batch.is_empty() {
            return;
        }
        let flight = Self(Arc::clone(&self.0));
        // Without a runtime there is nobody left to write, and those who wait hear of it because their batch is dropped.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                flight.0.write(batch).await;
                drop(flight);
            });
        }
    }
}

/// Whether messages may be written with those of others: not if what becomes of them depends on what is there already.
fn fits(messages: &[JobMessage]) -> bool {
    messages.len() <= SMALL
        && messages.iter().all(|message| {
            !message.id_given && message.terms.unique.is_none() && message.payload.as_bytes().len() <= SHORT
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobId, Limits, NewJob, Unique};

    /// What becomes of these depends on what is there, so a batch of several senders could not say whose was kept.
    #[test]
    fn given_ids_and_unique_jobs_are_written_alone() {
        let message = |job: NewJob| job.validate(Limits::default()).unwrap();
        let plain = || NewJob::json("kind", &1);
        assert!(fits(&[message(plain()), message(plain())]));
        assert!(!fits(&[message(plain()), message(plain().id(JobId::new()))]));
        assert!(!fits(&[message(plain().unique(Unique::key("k"))), message(plain())]));
        assert!(!fits(&[message(NewJob::json("kind", &"x".repeat(SHORT)))]));
        assert!(!fits(&(0..=SMALL).map(|_| message(plain())).collect::<Vec<_>>()));
    }
}
