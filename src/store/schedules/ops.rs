//! Operations of people and executors on schedules, on any store.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::due::BYTES;
use super::{FireOutcome, Firing, ScheduleInfo, ScheduleQuery};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{JobId, JobMessage, ScheduleSpec};
use crate::store::{AuditNote, Hint, OperatorOptions, Schedules};

/// How many occurrences one backfill has at most.
pub const BACKFILL_MAX: usize = 10_000;
/// How many due schedules one call of [`fire_due`] reads.
const ROUND: usize = 100;
/// How many jobs one statement sends.
const BATCH: usize = 1000;
/// How often a change is tried that meets other changes of the same schedule.
const TRIES: usize = 20;

/// What a put did to a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PutOutcome {
    /// There was no schedule of this name.
    Created,
    /// The schedule was changed.
    Changed,
    /// The schedule was like this already.
    Unchanged,
}

/// The result of a put.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Put {
    /// What the put did.
    pub outcome: PutOutcome,
    /// The schedule as it is now.
    pub schedule: ScheduleInfo,
}

/// The result of [`fire_due`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fired {
    /// How many schedules moved on.
    pub schedules: u64,
    /// How many jobs were sent.
    pub jobs: u64,
    /// The hints to send about them.
    pub hints: Vec<Hint>,
    /// Schedules with more missed occurrences than one call sends: the next call goes on with them.
    pub unfinished: Vec<String>,
    /// Schedules that sent nothing, because the job before is not over.
    pub overlapped: Vec<String>,
}

/// The result of a backfill, or of a dry run of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Backfilled {
    /// How many occurrences there are in that time.
    pub occurrences: u64,
    /// How many jobs were sent: fewer if jobs of some occurrences still exist. 0 in a dry run.
    pub jobs: u64,
    /// The queue that the jobs wait in.
    pub queue: String,
    /// The hint to send about them.
    #[serde(skip)]
    #[doc(hidden)]
    pub hint: Hint,
}

/// Returns the hint to send about a job.
fn hint(message: &JobMessage) -> Hint {
    if message.is_blocked_at_first() { Hint::Admission } else { Hint::Queue(message.queue.clone()) }
}

/// Stores a schedule, in place of the one of that name if there is one. A schedule that is replaced keeps its past, and its next occurrence unless
/// schedule, zone, end or number of times changed. A paused one stays paused.
///
/// Here and below, `by` is the operator, who gets an entry in the audit if something changed; `None` = no entry.
///
/// # Errors
/// When `seen` is given and the schedule has another version or does not exist, because it was changed meanwhile. When the operator's name
/// is invalid.
pub async fn put(jobs: &dyn Schedules, spec: &ScheduleSpec, seen: Option<i64>, by: Option<&str>) -> Result<Put> {
    for _ in 0..TRIES {
        let (now, old) = read(jobs, &spec.name).await?;
        if let Some(seen) = seen
            && old.as_ref().map(|old| old.version) != Some(seen)
        {
            let is = old.map_or("it is not there".to_owned(), |old| format!("its version is {}", old.version));
            return Err(Error::invalid(format!(
                "the schedule {:?} in {} was changed by another program: {is}, not {seen}; read it again and repeat the change",
                spec.name,
                jobs.describe()
            )));
        }
        let outcome = match &old {
            None => PutOutcome::Created,
            Some(old) if old.spec.same(spec) => {
                return Ok(Put { outcome: PutOutcome::Unchanged, schedule: old.clone() });
            }
            Some(_) => PutOutcome::Changed,
        };
        let before = old.as_ref().map(|old| old.version);
        let note = AuditNote::new(by, "put-schedule", what(spec, outcome))?;
        let schedule = replacement(spec, old, now);
        if jobs.write_schedule(&schedule, before, note.as_ref()).await? {
            return Ok(Put { outcome, schedule });
        }
    }
    Err(crowded(jobs, "put", &spec.name))
}

/// Returns what the audit records of a schedule that was put. It leaves out the payload, which may be large or secret.
fn what(spec: &ScheduleSpec, outcome: PutOutcome) -> Value {
    let ScheduleSpec { name, schedule, message, misfire, overlap, until, times } = spec;
    json!({
        "schedule": name, "outcome": outcome, "when": schedule.text(), "zone": schedule.zone(), "misfire": misfire, "overlap": overlap,
        "until": until, "times": times, "kind": message.kind, "queue": message.queue, "priority": message.priority,
        "max_attempts": message.max_attempts,
    })
}

/// Cuts a time to microseconds, the resolution of the database.
fn whole_micros(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

/// Returns the schedule to write for a put.
fn replacement(spec: &ScheduleSpec, old: Option<ScheduleInfo>, now: Timestamp) -> ScheduleInfo {
    let kept = old.as_ref().filter(|old| old.spec.same_times(spec)).map(|old| (old.anchor, old.next_at));
    let same_schedule = old.as_ref().filter(|old| old.spec.schedule == spec.schedule);
    // A new end is no reason to count from another time.
    let anchor = same_schedule.map_or_else(|| whole_micros(now), |old| old.anchor);
    let mut spec = spec.clone();
    spec.schedule = spec.schedule.counted_from(anchor);
    let fired = old.as_ref().map_or(0, |old| old.fired);
    let (anchor, next_at) = kept.unwrap_or_else(|| (anchor, spec.next(now, fired)));
    ScheduleInfo {
        version: old.as_ref().map_or(0, |old| old.version + 1),
        anchor,
        paused: old.as_ref().is_some_and(|old| old.paused),
        next_at,
        last_at: old.as_ref().and_then(|old| old.last_at),
        last_job: old.and_then(|old| old.last_job),
        fired,
        spec,
    }
}

/// Returns a schedule; `None` = there is none of this name.
pub async fn get(jobs: &dyn Schedules, name: &str) -> Result<Option<ScheduleInfo>> {
    read(jobs, name).await.map(|(_, found)| found)
}

async fn read(jobs: &dyn Schedules, name: &str) -> Result<(Timestamp, Option<ScheduleInfo>)> {
    let names = [name.to_owned()];
    let (now, mut found) = jobs.read_schedules(ScheduleQuery::Named(&names)).await?;
    Ok((now, found.pop()))
}

async fn existing(jobs: &dyn Schedules, name: &str) -> Result<(Timestamp, ScheduleInfo)> {
    let (now, found) = read(jobs, name).await?;
    let found = found.ok_or_else(|| {
        Error::invalid(format!(
            "there is no schedule {name:?} in {}: look for it in the list of schedules",
            jobs.describe()
        ))
    })?;
    Ok((now, found))
}

fn crowded(jobs: &dyn Schedules, what: &str, name: &str) -> Error {
    Error::new(
        ErrorKind::Busy,
        format!(
            "can't {what} the schedule {name:?} in {}: other programs keep changing it; nothing was changed, try again",
            jobs.describe()
        ),
    )
}

/// Pauses a schedule until it is resumed. `false`: it was paused already.
///
/// # Errors
/// When there is no schedule of this name.
pub async fn pause(jobs: &dyn Schedules, name: &str, by: Option<&str>) -> Result<bool> {
    set_paused(jobs, name, true, by).await
}

/// Resumes a schedule, with the first occurrence from now: those that the pause left out are not made up for.
/// `false`: it was not paused.
///
/// # Errors
/// When there is no schedule of this name.
pub async fn resume(jobs: &dyn Schedules, name: &str, by: Option<&str>) -> Result<bool> {
    set_paused(jobs, name, false, by).await
}

async fn set_paused(jobs: &dyn Schedules, name: &str, paused: bool, by: Option<&str>) -> Result<bool> {
    let action = if paused { "pause-schedule" } else { "resume-schedule" };
    let note = AuditNote::new(by, action, json!({ "schedule": name }))?;
    for _ in 0..TRIES {
        let (now, old) = existing(jobs, name).await?;
        if old.paused == paused {
            return Ok(false);
        }
        let next_at = if paused { old.next_at } else { old.spec.next(now, old.fired) };
        let seen = old.version;
        let changed = ScheduleInfo { paused, next_at, version: seen + 1, ..old };
        if jobs.write_schedule(&changed, Some(seen), note.as_ref()).await? {
            return Ok(true);
        }
    }
    Err(crowded(jobs, if paused { "pause" } else { "resume" }, name))
}

/// Removes a schedule; jobs that it has sent stay. `false`: there was none of this name.
///
/// # Errors
/// When the store can't be reached.
pub async fn delete(jobs: &dyn Schedules, name: &str, by: Option<&str>) -> Result<bool> {
    let note = AuditNote::new(by, "delete-schedule", json!({ "schedule": name }))?;
    Ok(jobs.delete_schedules(&[name.to_owned()], note.as_ref()).await? > 0)
}

/// Sends a job of a schedule now, besides its occurrences, whether or not it is paused. Returns the job and the hint to send
/// about it.
///
/// # Errors
/// When there is no schedule of this name.
pub async fn run_now(jobs: &dyn Schedules, name: &str, by: Option<&str>) -> Result<(JobId, Hint)> {
    let (now, schedule) = existing(jobs, name).await?;
    let message = schedule.spec.extra(now);
    let (id, hint) = (message.id, hint(&message));
    let mut note = AuditNote::new(by, "run-schedule", json!({ "schedule": name, "job": id }))?;
    jobs.send_of_schedule(&[message], note.as_mut()).await?;
    Ok((id, hint))
}

/// Sends the jobs of all occurrences from `from` (included) to `to` (excluded), also of those that have happened. Skips occurrences
/// whose jobs still exist. At most [`BACKFILL_MAX`] occurrences.
///
/// # Errors
/// When there is no schedule of this name, `from` is not before `to`, `to` is in the future, or there are too many occurrences.
pub async fn backfill(
    jobs: &dyn Schedules,
    name: &str,
    (from, to): (Timestamp, Timestamp),
    OperatorOptions { dry_run, by, .. }: OperatorOptions<'_>,
) -> Result<Backfilled> {
    let (now, schedule) = existing(jobs, name).await?;
    let spec = &schedule.spec;
    if from >= to || to > now {
        return Err(Error::invalid(format!(
            "can't backfill {name:?} from {from} to {to}: the start must be earlier than the end, and the end not in the future (now: {now})"
        )));
    }
    let before = |at: Timestamp| Timestamp::from_nanosecond(at.as_nanosecond() - 1).unwrap_or(Timestamp::MIN);
    let first = spec.schedule.next_after(before(from));
    let occurrences: Vec<Timestamp> = std::iter::successors(first, |last| spec.schedule.next_after(*last))
        .take_while(|at| *at < to && spec.until.is_none_or(|until| *at <= until))
        .take(BACKFILL_MAX + 1)
        .collect();
    if occurrences.len() > BACKFILL_MAX {
        return Err(Error::invalid(format!(
            "{name:?} happens more than {BACKFILL_MAX} times from {from} to {to}: backfill a shorter time at once"
        )));
    }
    let mut done = Backfilled {
        occurrences: occurrences.len() as u64,
        jobs: 0,
        queue: spec.message.queue.clone(),
        hint: hint(&spec.message),
    };
    if !dry_run {
        let what = json!({ "schedule": name, "from": from, "to": to, "occurrences": done.occurrences });
        let mut note = AuditNote::new(by, "backfill-schedule", what)?;
        for batch in batches(spec, &occurrences) {
            let messages: Vec<JobMessage> = batch.iter().map(|at| spec.occurrence(*at)).collect();
            // Each batch may be sent again: an occurrence is always the same job.
            done.jobs += jobs.send_of_schedule(&messages, note.as_mut()).await?;
        }
    }
    Ok(done)
}

fn batches<'a>(spec: &ScheduleSpec, occurrences: &'a [Timestamp]) -> std::slice::Chunks<'a, Timestamp> {
    let size = spec.message.payload.as_bytes().len().max(1);
    occurrences.chunks((BYTES / size).clamp(1, BATCH))
}

/// Decides what to do at `now` with schedules that are due. They send at most `limit` jobs, but each may send one.
pub(crate) fn plan_due(due: &[ScheduleInfo], now: Timestamp, limit: usize) -> Vec<Firing> {
    // All due schedules get a share: none has to wait until another has made up for a year of missed occurrences.
    let share = |all: usize| (all / due.len().max(1)).max(1);
    due.iter()
        // The query returns only due schedules; a row that is not due was changed by hand.
        .filter_map(|info| info.next_at.filter(|at| *at <= now).map(|at| (info, at)))
        .map(|(info, at)| Firing::plan(info, at, now, (share(limit), share(BYTES))))
        .collect()
}

/// Fires schedules that are due: sends at most `limit` jobs, but at least one for each of up to 100 schedules. Call until
/// [`next_schedule`](crate::store::Schedules::next_schedule) returns a later time.
pub async fn fire_due(jobs: &dyn Schedules, limit: usize) -> Result<Fired> {
    let (now, due) = jobs.read_schedules(ScheduleQuery::Due(ROUND)).await?;
    let firings = plan_due(&due, now, limit);
    if firings.is_empty() {
        return Ok(Fired::default());
    }
    let mut fired = Fired::default();
    for (firing, outcome) in firings.iter().zip(jobs.fire_schedules(&firings).await?) {
        match outcome {
            FireOutcome::Lost => continue,
            FireOutcome::Skipped => fired.overlapped.push(firing.name.clone()),
            FireOutcome::Sent => {
                fired.jobs += firing.jobs.len() as u64;
                if let Some(hint) = firing.jobs.first().map(hint).filter(|hint| !fired.hints.contains(hint)) {
                    fired.hints.push(hint);
                }
                if firing.more {
                    fired.unfinished.push(firing.name.clone());
                }
            }
        }
        fired.schedules += 1;
    }
    Ok(fired)
}
