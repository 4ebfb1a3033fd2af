use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::limits::Limits;
use super::names::check_name;
use super::{Due, JobId, JobMessage, NewJob, Schedule};
use crate::error::{Error, Result};

/// Header of a job that a schedule sent: the schedule's name.
pub const SCHEDULE: &str = "schedule";
/// Header of a job that a schedule sent: the time of its occurrence (RFC 3339, UTC).
pub const SCHEDULED_AT: &str = "scheduledAt";

macro_rules! words {
    ($type:ident, $what:literal: $($variant:ident = $word:literal),*) => {
        impl $type {
            /// All variants.
            #[doc(hidden)]
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the word used in output and configuration.
            #[doc(hidden)]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $type {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                Self::ALL.iter().copied().find(|one| one.as_str() == text).ok_or_else(|| {
                    let all: Vec<_> = Self::ALL.iter().map(|one| one.as_str()).collect();
                    Error::invalid(format!("{text:?} is not a valid {}; use one of {}", $what, all.join(", ")))
                })
            }
        }
    };
}

/// What happens to missed occurrences: no node was running, or the database was unavailable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Misfire {
    /// They are skipped, and the next one is as usual. An occurrence counts as missed once it is a minute late.
    Skip,
    /// They are sent as a single job, for the latest of them.
    #[default]
    Once,
    /// Each is sent as its own job, at most 1000 in one transaction.
    All,
}

words!(Misfire, "misfire policy": Skip = "skip", Once = "once", All = "all");

/// Whether a job may be sent before that of the previous occurrence has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Overlap {
    /// It may.
    #[default]
    Allow,
    /// It may not: while the previous job waits, runs, is suspended or is between two attempts, occurrences are skipped. A dead letter
    /// counts as ended.
    Forbid,
}

words!(Overlap, "overlap policy": Allow = "allow", Forbid = "forbid");

/// A repeating job before it is stored: what to send, and when.
///
/// ```
/// use jobwright::{Misfire, NewJob, NewSchedule, Schedule};
///
/// let report = NewJob::json("daily-report", &()).queue("reports");
/// let repeating = NewSchedule::new("daily-report", Schedule::in_zone("0 6 * * MON-FRI", "Europe/Berlin")?, report)
///     .misfire(Misfire::Skip);
/// # Ok::<_, jobwright::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a schedule does nothing until it is put"]
pub struct NewSchedule {
    name: String,
    schedule: Schedule,
    job: NewJob,
    misfire: Misfire,
    overlap: Overlap,
    until: Option<Timestamp>,
    times: Option<u64>,
}

impl NewSchedule {
    /// Creates a schedule that sends a job like `job` at each occurrence. `name`: 1 to 100 bytes; putting a schedule of the same name again
    /// replaces it.
    pub fn new(name: impl Into<String>, schedule: Schedule, job: NewJob) -> Self {
        Self {
            name: name.into(),
            schedule,
            job,
            misfire: Misfire::default(),
            overlap: Overlap::default(),
            until: None,
            times: None,
        }
    }

    /// Sets what happens to missed occurrences. Default: [`Misfire::Once`].
    pub fn misfire(mut self, misfire: Misfire) -> Self {
        self.misfire = misfire;
        self
    }

    /// Sets whether its jobs may overlap. Default: [`Overlap::Allow`].
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// Ends the schedule: there is no occurrence after this time.
    pub fn until(mut self, until: Timestamp) -> Self {
        self.until = Some(until);
        self
    }

    /// Limits the number of jobs. At least 1. (`R5/…` counts occurrences, whether or not they were missed; this counts jobs.)
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Checks everything that can be checked before the database sees it.
    pub(crate) fn validate(self, limits: Limits) -> Result<ScheduleSpec> {
        let Self { name, schedule, job, misfire, overlap, until, times } = self;
        check_name("schedule's name", &name)?;
        if let Some(times) = times.filter(|times| i64::try_from(*times).is_err()) {
            return Err(Error::invalid(format!(
                "the schedule {name:?} is to send {times} jobs: use at most {}, or set no number for an unlimited one",
                i64::MAX
            )));
        }
        if times == Some(0) {
            return Err(Error::invalid(format!("the schedule {name:?} is to send no job at all: use 1 or more times")));
        }
        if misfire == Misfire::All && overlap == Overlap::Forbid {
            return Err(Error::invalid(format!(
                "the schedule {name:?} wants all missed occurrences at once, and no overlap: use `once` or `skip`, or allow overlap"
            )));
        }
        if job.id_given {
            return Err(Error::invalid(format!(
                "the job of the schedule {name:?} has an id: each occurrence has its own"
            )));
        }
        if job.due != Due::Now {
            return Err(Error::invalid(format!(
                "the job of the schedule {name:?} has a delay or a due date: the schedule says when it runs"
            )));
        }
        if let Some(taken) = [SCHEDULE, SCHEDULED_AT].into_iter().find(|header| job.headers.contains_key(*header)) {
            return Err(Error::invalid(format!(
                "the job of the schedule {name:?} has the header {taken:?}, which the schedule sets"
            )));
        }
        // Checked in the form in which it will be sent, so that no occurrence is refused later.
        let mut message = dressed(job, &name, Timestamp::UNIX_EPOCH).validate(limits)?;
        message.headers.retain(|header, _| header != SCHEDULE && header != SCHEDULED_AT);
        // Rounded to the precision of a database.
        let until = until.and_then(|until| Timestamp::from_microsecond(until.as_microsecond()).ok());
        Ok(ScheduleSpec { name, schedule, message, misfire, overlap, until, times })
    }
}

fn dressed(job: NewJob, name: &str, at: Timestamp) -> NewJob {
    job.header(SCHEDULE, name).header(SCHEDULED_AT, text(at))
}

/// Formats a time, always with microseconds, so that the texts of one schedule sort by time.
fn text(at: Timestamp) -> String {
    format!("{at:.6}")
}

/// A checked schedule, as a store keeps it. Only [`ScheduleService::put`](crate::ScheduleService::put) makes one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ScheduleSpec {
    /// Name, which identifies it.
    pub name: String,
    /// When jobs are sent.
    pub schedule: Schedule,
    /// The job to send, without the headers that each occurrence adds.
    pub message: JobMessage,
    /// What happens to missed occurrences.
    pub misfire: Misfire,
    /// Whether its jobs may overlap.
    pub overlap: Overlap,
    /// No occurrence is after this time.
    pub until: Option<Timestamp>,
    /// At most this many jobs are sent.
    pub times: Option<u64>,
}

impl ScheduleSpec {
    /// Whether both have the same occurrences.
    pub(crate) fn same_times(&self, other: &Self) -> bool {
        (&self.schedule, self.until, self.times) == (&other.schedule, other.until, other.times)
    }

    /// Whether both are equal.
    pub(crate) fn same(&self, other: &Self) -> bool {
        let (ours, theirs) = (&self.message, &other.message);
        self.same_times(other)
            && (self.misfire, self.overlap) == (other.misfire, other.overlap)
            && (&ours.kind, &ours.queue, ours.priority, ours.max_attempts, &ours.headers)
                == (&theirs.kind, &theirs.queue, theirs.priority, theirs.max_attempts, &theirs.headers)
            && ours.options == theirs.options
            && ours.payload.says_the_same(&theirs.payload)
    }

    /// Returns the job of an occurrence. Its id depends only on the schedule's name and the time, so however often and wherever it is
    /// fired, it is one job.
    pub(crate) fn occurrence(&self, at: Timestamp) -> JobMessage {
        let mut message = self.message.clone();
        message.id = occurrence_id(&self.name, at);
        message.id_given = true;
        message.headers.insert(SCHEDULE.to_owned(), self.name.clone());
        message.headers.insert(SCHEDULED_AT.to_owned(), text(at));
        message
    }

    /// Returns a job in addition to the occurrences.
    pub(crate) fn extra(&self, at: Timestamp) -> JobMessage {
        JobMessage { id: JobId::new(), id_given: false, ..self.occurrence(at) }
    }
}

/// Makes a `UUIDv8` from name and time.
fn occurrence_id(name: &str, at: Timestamp) -> JobId {
    let mut hash = Sha256::new();
    hash.update(b"jobwright schedule\0");
    hash.update(name);
    hash.update([0]);
    hash.update(at.as_microsecond().to_be_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule() -> Schedule {
        Schedule::new("@daily").unwrap()
    }

    fn job() -> NewJob {
        NewJob::json("kind", &1)
    }

    #[test]
    fn bad_templates_are_refused_with_the_reason() {
        let put = |job| NewSchedule::new("name", schedule(), job);
        let many = (0..63).fold(job(), |job, n| job.header(format!("h{n}"), "v"));
        for (bad, why) in [
            (NewSchedule::new("", schedule(), job()), "schedule's name is empty"),
            (NewSchedule::new("a\n", schedule(), job()), "control character"),
            (put(job().id(JobId::new())), "has an id"),
            (put(job().delay(std::time::Duration::from_secs(1))), "delay or a due date"),
            (put(job().at(Timestamp::now())), "delay or a due date"),
            (put(job().header(SCHEDULED_AT, "x")), "scheduledAt"),
            (put(job().queue("")), "queue is empty"),
            (put(many), "65 headers"),
            (put(job()).times(0), "1 or more"),
            (put(job()).times(u64::MAX), "at most 9223372036854775807"),
            (put(job()).misfire(Misfire::All).overlap(Overlap::Forbid), "no overlap"),
        ] {
            let error = bad.validate(Limits::default()).expect_err(why);
            assert!(error.is_invalid() && error.to_string().contains(why), "{error} does not say {why:?}");
        }
    }

    #[test]
    fn an_occurrence_has_one_id() {
        let spec = |name: &str| NewSchedule::new(name, schedule(), job()).validate(Limits::default()).unwrap();
        let at: Timestamp = "2026-03-01T00:00:00Z".parse().unwrap();
        let first = spec("a").occurrence(at);
        assert_eq!(first.id, spec("a").occurrence(at).id);
        assert_eq!(first.id.as_uuid().get_version_num(), 8);
        assert_eq!(first.headers[SCHEDULED_AT], "2026-03-01T00:00:00.000000Z");
        assert_eq!(first.headers[SCHEDULE], "a");
        let later = at.checked_add(jiff::SignedDuration::from_micros(1)).unwrap();
        assert_ne!(first.id, spec("a").occurrence(later).id);
        assert_ne!(first.id, spec("b").occurrence(at).id);
        assert!(spec("a").message.headers.is_empty());
    }
}
