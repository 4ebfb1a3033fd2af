//! Unique jobs: the keys that a flush asks for, and what the answers mean. docs/adr/0031-unique.md describes how keys are held.

use std::collections::{HashMap, HashSet};

use crate::error::{Error, ErrorKind, Result};
use crate::job::{JobId, JobMessage, UniqueConflict, UniqueOptions};
use crate::store::Inserted;

/// The unique messages of a flush that are not written.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// The positions of messages that are not to be written.
    pub(crate) skip: HashSet<usize>,
    /// The ids of messages whose key is held, each with the id of the job that holds it.
    pub(crate) duplicates: Vec<(JobId, JobId)>,
    /// The ids of messages whose jobs were there before.
    pub(crate) known: Vec<JobId>,
}

impl Taken {
    /// Returns what the flush reports of them.
    pub(crate) fn reported(self) -> Inserted {
        Inserted { duplicates: self.duplicates, known: self.known, ..Inserted::default() }
    }

    pub(crate) fn keep(&mut self, position: usize, id: JobId, holder: JobId) {
        self.skip.insert(position);
        self.duplicates.push((id, holder));
    }
}

/// The messages of a flush that ask for keys, each key once: of several messages with the same key, the first asks for it.
#[derive(Debug, Default)]
pub(crate) struct Asked<'a> {
    /// The first message with each key: its position, the message, its options.
    pub(crate) firsts: Vec<(usize, &'a JobMessage, &'a UniqueOptions)>,
    /// Other messages with such a key: position, id, and the index in `firsts` of the message with the same key.
    again: Vec<(usize, JobId, usize)>,
    /// Positions of messages whose jobs exist already. They must not be written after another message of the flush has replaced them.
    known: Vec<(usize, JobId)>,
}

impl<'a> Asked<'a> {
    /// Collects the keys that messages ask for. `None`: no message asks for one. Messages whose ids are `known` exist already and ask for
    /// nothing: the same id twice is one job, and a job that was sent with its key meanwhile stays.
    ///
    /// # Errors
    /// `Conflict` if two messages have the same key and the later one asks to be rejected then.
    pub(crate) fn new(messages: &'a [JobMessage], known: &HashSet<JobId>) -> Result<Option<Self>> {
        let mut asked = Self::default();
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for (position, message) in messages.iter().enumerate() {
            if known.contains(&message.id) {
                asked.known.push((position, message.id));
                continue;
            }
            let Some(options) = &message.options.unique else { continue };
            match seen.get(options.key.as_str()) {
                Some(&first) => {
                    let other = asked.firsts[first].1.id;
                    if options.conflict == UniqueConflict::Reject && other != message.id {
                        return Err(conflict(message, other));
                    }
                    asked.again.push((position, message.id, first));
                }
                None => {
                    seen.insert(&options.key, asked.firsts.len());
                    asked.firsts.push((position, message, options));
                }
            }
        }
        Ok((!asked.firsts.is_empty()).then_some(asked))
    }

    /// Evaluates the answers for `firsts`: the job that holds the key of each; `None`: the message itself got it.
    pub(crate) fn taken(&self, holders: &[Option<JobId>]) -> Taken {
        let (skip, known) = self.known.iter().copied().unzip();
        let mut taken = Taken { skip, known, ..Taken::default() };
        for ((position, message, _), holder) in self.firsts.iter().zip(holders) {
            if let Some(holder) = holder {
                taken.keep(*position, message.id, *holder);
            }
        }
        for (position, id, first) in &self.again {
            let holder = holders.get(*first).copied().flatten().unwrap_or(self.firsts[*first].1.id);
            taken.keep(*position, *id, holder);
        }
        taken
    }
}

/// Creates the error for a message whose key another job holds.
pub(crate) fn conflict(message: &JobMessage, holder: JobId) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!(
            "the job {} of kind {:?} must be unique, and job {holder} holds its key: nothing of the flush was written; wait until that one \
             is gone, delete it, or send with `keep` or `replace`",
            message.id, message.kind
        ),
    )
}
