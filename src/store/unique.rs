//! Unique jobs: what a flush asks for, and what its answers mean. How keys are held is said in docs/adr/0031-unique.md.

use std::collections::{HashMap, HashSet};

use crate::error::{Error, ErrorKind, Result};
use crate::job::{JobId, JobMessage, UniqueConflict, UniqueTerm};

/// What becomes of the unique messages of a flush.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// Messages (by position) that are not to be written.
    pub(crate) skip: HashSet<usize>,
    /// The same by id, each with the id of the job that holds its key.
    pub(crate) kept: Vec<(JobId, JobId)>,
}

impl Taken {
    pub(crate) fn keep(&mut self, position: usize, id: JobId, holder: JobId) {
        self.skip.insert(position);
        self.kept.push((id, holder));
    }
}

/// The ids that their senders chose, in a flush with unique messages: their jobs may be there already.
pub(crate) fn given(messages: &[JobMessage]) -> Vec<JobId> {
    if messages.iter().all(|message| message.terms.unique.is_none()) {
        return Vec::new();
    }
    messages.iter().filter(|message| message.id_given).map(|message| message.id).collect()
}

/// The messages of a flush that ask for keys, each key once: of several with the same key the first counts.
#[derive(Debug, Default)]
pub(crate) struct Asked<'a> {
    /// Position, message, term.
    pub(crate) firsts: Vec<(usize, &'a JobMessage, &'a UniqueTerm)>,
    /// Position, id, and the position among the firsts of the one with the same key.
    again: Vec<(usize, JobId, usize)>,
    /// Positions of those that are there already. They must not be written after another one of the flush has replaced them.
    known: Vec<usize>,
}

impl<'a> Asked<'a> {
    /// `None`: none is unique. Those whose ids are `known` are there already and ask for nothing: the same id twice is one job, and what
    /// was sent with its key meanwhile stays.
    ///
    /// # Errors
    /// `Conflict` if two have the same key, and the later one is to be rejected then.
    pub(crate) fn new(messages: &'a [JobMessage], known: &HashSet<JobId>) -> Result<Option<Self>> {
        let mut asked = Self::default();
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for (position, message) in messages.iter().enumerate() {
            if known.contains(&message.id) {
                asked.known.push(position);
                continue;
            }
            let Some(term) = &message.terms.unique else { continue };
            match seen.get(term.key.as_str()) {
                Some(&first) => {
                    let other = asked.firsts[first].1.id;
                    if term.conflict == UniqueConflict::Reject && other != message.id {
                        return Err(conflict(message, other));
                    }
                    asked.again.push((position, message.id, first));
                }
                None => {
                    seen.insert(&term.key, asked.firsts.len());
                    asked.firsts.push((position, message, term));
                }
            }
        }
        Ok((!asked.firsts.is_empty()).then_some(asked))
    }

    /// With the answers for the firsts: who else holds the key of each; `None`: it has it.
    pub(crate) fn taken(&self, holders: &[Option<JobId>]) -> Taken {
        let mut taken = Taken { skip: self.known.iter().copied().collect(), ..Taken::default() };
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

/// The key of a message is held by another job.
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
