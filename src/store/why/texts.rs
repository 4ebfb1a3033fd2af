//! The reasons in words, and the remedies.

use std::fmt;

use jiff::Timestamp;

use super::{Holder, Reason};
use crate::job::JobId;
use crate::store::{EACH, JobState, Scope};

impl Reason {
    /// Returns what a person can do about it, for the job with this id; `None` = wait.
    pub fn remedy(&self, job: JobId) -> Option<String> {
        Some(match self {
            Self::Overdue { .. } => "the log of a running worker says why it moves no timers".to_owned(),
            Self::Suspended => format!("`jobwright jobs resume {job}`"),
            Self::Dead { .. } => format!("`jobwright jobs retry {job}` when the cause is gone"),
            Self::Paused { scope: Scope::Queue, name, .. } => format!("`jobwright queues resume {}`", quoted(name)),
            Self::Paused { scope, name, .. } => {
                format!("`jobwright rules put {scope} {} --paused false`", quoted(name))
            }
            Self::Limit { scope, name, most: 0, .. } => {
                format!("`jobwright rules put {scope} {} --running N` with the number that may run", quoted(name))
            }
            Self::Group { holder: Holder::Job { id, state: JobState::Dead, .. }, .. } => {
                format!("`jobwright jobs retry {id}`, or `delete` it: jobs of an ordered group wait for it")
            }
            Self::Group { holder: Holder::Job { id, state: JobState::Suspended, .. }, .. } => {
                format!("`jobwright jobs resume {id}`")
            }
            Self::Unreadable => {
                format!(
                    "`jobwright jobs show {job}` shows its readable part; send the job again, and `jobs delete` this one"
                )
            }
            Self::NoNode => "start `jobwright worker`, or the service with the executor".to_owned(),
            Self::QueueNotServed { queue } => format!(
                "start a worker with `--queue {}`, or move the job: `jobwright jobs change {job} --to-queue …`",
                quoted(queue)
            ),
            Self::KindNotHandled { kind, .. } => format!(
                "check the spelling of the kind {kind:?}, or start a worker that has its handler; `jobwright nodes list` shows the kinds of each node"
            ),
            Self::LeftAlone { .. } => {
                "fix the cause that the node names; it tries again by itself, at growing intervals".to_owned()
            }
            Self::Failing { task, .. } if task.lacks_consumers() => {
                "start a worker that consumes that queue, or correct the name of the queue that it consumes".to_owned()
            }
            Self::Failing { .. } => "fix the cause that the error names; the node tries again by itself".to_owned(),
            Self::NoWorker { queue } => format!(
                "start the program that takes jobs of {queue:?} (`jobwright.take`); `jobwright status` shows which ones were heard, and when"
            ),
            Self::NoBroker { .. } => "`jobwright doctor` checks the broker".to_owned(),
            _ => return None,
        })
    }
}

/// Quotes a name for a shell, where that is needed.
fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:/@".contains(c);
    if !name.is_empty() && name.chars().all(is_plain) {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', "'\\''"))
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job { id, kind, since: Some(since), .. } => {
                write!(f, "job {id} of kind {kind:?}, which runs since {}", second(*since))
            }
            Self::Job { id, kind, state, .. } => write!(f, "job {id} of kind {kind:?}, which is {state}"),
            Self::Handler { id } => write!(f, "the handler of the cancelled job {id}, which has not ended yet"),
            Self::Gone => f.write_str("a job that no longer exists; a running worker releases it within two minutes"),
            Self::Node { id, jobs: 1 } => write!(f, "node {id}"),
            Self::Node { id, jobs } => write!(f, "node {id} with {jobs}"),
        }
    }
}

/// Names the jobs that a rule is about.
struct Subject<'a>(Scope, &'a str);

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(Scope::Key, name) => write!(f, "limit key {name:?}"),
            Self(scope, name) => write!(f, "{scope} {name:?}"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runs { node, name, since } => {
                write!(f, "it runs on node {node} ({name})")?;
                since.map_or(Ok(()), |since| write!(f, " since {}", second(since)))
            }
            Self::OwnerLost { node } => {
                write!(
                    f,
                    "node {node}, which ran it, is dead or has been silent for longer than its lease; it waits again when another executor has \
                     released it"
                )
            }
            Self::HandedOut { until, worker } => {
                match worker {
                    Some(name) => write!(f, "the worker {name} has taken it by SQL")?,
                    None => f.write_str("an external worker has it")?,
                }
                until.map_or(Ok(()), |until| write!(f, "; the worker's lease ends at {}", second(until)))
            }
            Self::Due { at } => write!(f, "it is due at {}", second(*at)),
            Self::Overdue { since } => {
                write!(f, "it has been due since {}, and no executor has moved it to its queue yet", second(*since))
            }
            Self::Suspended => f.write_str("an operator has suspended it"),
            Self::Dead { at, error } => write!(f, "it is a dead letter since {}: {error}", second(*at)),
            Self::Paused { scope, name, by, since } => {
                if name == EACH {
                    write!(f, "each {} is paused", if *scope == Scope::Key { "limit key" } else { scope.as_str() })?;
                } else {
                    write!(f, "{} is paused", Subject(*scope, name))?;
                }
                if let Some(since) = since {
                    write!(f, " since {}", second(*since))?;
                }
                by.as_ref().map_or(Ok(()), |by| write!(f, " by {by}"))
            }
            Self::Limit { scope, name, most: 0, .. } => write!(f, "no job of {} may run", Subject(*scope, name)),
            Self::Limit { scope, name, most, running, holders } => {
                write!(f, "{} has its limit of {most} running jobs ({running} run", Subject(*scope, name))?;
                for (position, holder) in holders.iter().enumerate() {
                    write!(f, "{}{holder}", if position == 0 { ": " } else { "; " })?;
                }
                f.write_str(")")
            }
            Self::Rate { scope, name, rate, until } => {
                write!(f, "{} has reached its rate of {rate}", Subject(*scope, name))?;
                until.map_or(Ok(()), |until| write!(f, "; more may start at {}", second(until)))
            }
            Self::Group { group, holder } => write!(f, "its group {group:?} is held by {holder}"),
            Self::RunsAlone => f.write_str(
                "its process died while it ran, so it waits for a node that runs nothing else at that moment",
            ),
            Self::Admission => {
                f.write_str("it is blocked, and nothing is in its way any more: the next admission pass lets it start")
            }
            Self::Expired { at } => {
                write!(f, "its time to live ended at {}; an executor is about to remove it", second(*at))
            }
            Self::Unreadable => f.write_str("its row can't be read, so it was set aside"),
            Self::Hidden { until } => write!(
                f,
                "polls skip it until {}: it is to start by a delivery through the broker, or it was postponed",
                second(*until)
            ),
            Self::NoNode => f.write_str("no executor is alive"),
            Self::QueueNotServed { queue } => write!(f, "no living node works on the queue {queue:?}"),
            Self::KindNotHandled { queue, kind } => {
                write!(f, "no living node that works on the queue {queue:?} has a handler for the kind {kind:?}")
            }
            Self::LeftAlone { kind, node, error } => {
                write!(f, "node {node} leaves the kind {kind:?} alone for a while: {error}")
            }
            Self::Failing { node, task } => {
                write!(f, "node {node} has reported since {}: {task}", second(task.since))
            }
            Self::NoWorker { queue } => {
                write!(
                    f,
                    "the jobs of the queue {queue:?} are for workers by SQL, and none has asked for jobs within a minute"
                )
            }
            Self::NoBroker { queue } => {
                write!(f, "the jobs of the queue {queue:?} leave through the broker, and no living node reaches it")
            }
            Self::Busy { slots, before } => {
                match slots {
                    1 => f.write_str("the only slot of its queue is busy"),
                    _ => write!(f, "all {slots} slots of its queue are busy"),
                }?;
                if *before > 0 { write!(f, ", and {} it", before_it(*before)) } else { Ok(()) }
            }
            Self::Behind { jobs, slots } => {
                write!(f, "{} it in its queue", before_it(*jobs))?;
                slots.map_or(Ok(()), |slots| write!(f, ", which runs {slots} at the same time"))
            }
            Self::Next => f.write_str("nothing is in its way: it is the next of its queue"),
        }
    }
}

/// Says how many jobs are before another one, counted up to a limit.
fn before_it(jobs: u64) -> String {
    match jobs {
        1 => "1 job is before".to_owned(),
        10_000.. => "10000 jobs or more are before".to_owned(),
        _ => format!("{jobs} jobs are before"),
    }
}

/// A time without the fractions of a second, which people do not need.
fn second(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}
