//! Ids that senders chose: what the database knows about them, and what that means for a flush.
//!
//! An id that is known with the same kind and queue was sent before, and sending it again changes nothing. An id that is known otherwise belongs
//! to another job. Taken for the same, the job would be lost without a word.

use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::error::{Error, ErrorKind, Result};
use crate::job::{JobId, JobMessage};

/// An id that is known as that of another job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OtherJob {
    pub(crate) id: JobId,
    pub(crate) differs: Differs,
}

/// In what the known job differs. Nothing else of it is told: it may be of another sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Differs {
    Kind,
    Queue,
    Both,
}

impl Differs {
    /// Compares a message with the job that is known by its id. `sent_to` is the queue that the job was sent to, if it was moved since.
    pub(crate) fn between(message: &JobMessage, kind: &str, queue: &str, sent_to: Option<&str>) -> Option<Self> {
        let same_kind = message.kind == kind;
        let same_queue = message.queue == queue || sent_to == Some(&message.queue);
        match (same_kind, same_queue) {
            (true, true) => None,
            (true, false) => Some(Self::Queue),
            (false, true) => Some(Self::Kind),
            (false, false) => Some(Self::Both),
        }
    }

    /// Reads the answer of `decide_ids` about a known id.
    pub(crate) fn told(known: &str) -> Option<Self> {
        match known {
            "same" => None,
            "kind" => Some(Self::Kind),
            "queue" => Some(Self::Queue),
            _ => Some(Self::Both),
        }
    }
}

impl fmt::Display for Differs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kind => "another kind",
            Self::Queue => "another queue",
            Self::Both => "another kind and another queue",
        })
    }
}

/// The ids at fault, as the source of an error.
#[derive(Debug)]
struct OtherJobs(Vec<JobId>);

impl fmt::Display for OtherJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ids of other jobs", self.0.len())
    }
}

impl std::error::Error for OtherJobs {}

/// Refuses a flush with such ids; nothing of it was written.
///
/// # Errors
/// `Conflict`, unless there are none.
pub(crate) fn refuse(others: &[OtherJob]) -> Result<()> {
    let Some(OtherJob { id, differs }) = others.first() else { return Ok(()) };
    let more = match others.len() {
        1 => String::new(),
        many => format!(" (and {} more ids of the flush likewise)", many - 1),
    };
    let message = format!(
        "the id {id} is that of another job, which was sent before with {differs}{more}: nothing of the flush was written; `jobwright jobs show \
         {id}` shows that job; if it is the same work, do not send it again; otherwise use a new id"
    );
    let ids = others.iter().map(|other| other.id).collect();
    Err(Error::new(ErrorKind::Conflict, message).with_source(OtherJobs(ids)).keeping_nothing())
}

/// Returns the ids that an error of [`refuse`] names.
pub(crate) fn of_other_jobs(error: &Error) -> Option<&[JobId]> {
    std::error::Error::source(error)?.downcast_ref().map(|OtherJobs(ids)| &**ids)
}

/// Refuses a flush that gives one id to two messages which can't be the same job. Of two that can, the first counts.
///
/// # Errors
/// `Conflict` for such an id.
pub(crate) fn refuse_twice(messages: &[JobMessage]) -> Result<()> {
    let mut firsts: HashMap<JobId, &JobMessage> = HashMap::new();
    let mut others = Vec::new();
    for message in messages.iter().filter(|message| message.id_given) {
        let first = *firsts.entry(message.id).or_insert(message);
        let differs = Differs::between(message, &first.kind, &first.queue, None);
        others.extend(differs.map(|differs| OtherJob { id: message.id, differs }));
    }
    refuse(&others)
}

/// Parts the jobs of schedules from those whose id another job has, after an error of [`refuse`]. Returns the jobs to send, and the ids of the
/// others, which the schedule must not take for jobs of its own. `None`: it is another error.
///
/// The id of an occurrence is computed from the schedule's name and its time. If another job has it, the occurrence was sent by a former version of the
/// schedule, or another sender took the id. The schedule goes on nevertheless.
pub(crate) fn without_others(error: &Error, jobs: &[JobMessage]) -> Option<(Vec<JobMessage>, HashSet<JobId>)> {
    let others: HashSet<JobId> = of_other_jobs(error)?.iter().copied().collect();
    tracing::warn!(%error, occurrences = others.len(), "jobs of a schedule are not sent: their ids are those of other jobs");
    Some((jobs.iter().filter(|job| !others.contains(&job.id)).cloned().collect(), others))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Limits, NewJob};

    fn message(kind: &str, queue: &str, id: JobId) -> JobMessage {
        NewJob::json(kind, &"secret").queue(queue).id(id).validate(Limits::default()).unwrap()
    }

    #[test]
    fn only_the_differences_are_reported() {
        let id = JobId::new();
        let mine = message("mine", "q", id);
        assert_eq!(Differs::between(&mine, "mine", "q", None), None);
        assert_eq!(Differs::between(&mine, "mine", "moved", Some("q")), None);
        for (kind, queue, text) in [
            ("theirs", "q", "with another kind:"),
            ("mine", "other", "with another queue:"),
            ("theirs", "other", "with another kind and another queue:"),
        ] {
            let differs = Differs::between(&mine, kind, queue, None).unwrap();
            let error = refuse(&[OtherJob { id, differs }]).unwrap_err();
            let said = error.to_string();
            assert!(
                said.starts_with("JW-CONFLICT: ") && said.contains(text) && said.contains(&id.to_string()),
                "{said}"
            );
            assert!(!said.contains("theirs") && !said.contains("secret") && error.kept_nothing(), "{said}");
            assert_eq!(of_other_jobs(&error), Some(&[id][..]));
        }
        assert!(refuse(&[]).is_ok());
    }

    #[test]
    fn one_id_for_two_jobs_of_a_flush_is_refused() {
        let id = JobId::new();
        assert!(refuse_twice(&[message("a", "q", id), message("a", "q", id), message("b", "q", JobId::new())]).is_ok());
        let error = refuse_twice(&[message("a", "q", id), message("b", "q", id)]).unwrap_err();
        assert_eq!(of_other_jobs(&error), Some(&[id][..]));
        let (rest, others) = without_others(&error, &[message("a", "q", id), message("b", "q", JobId::new())]).unwrap();
        assert_eq!((rest.len(), others), (1, HashSet::from([id])));
        assert!(without_others(&Error::invalid("other"), &rest).is_none());
    }
}
