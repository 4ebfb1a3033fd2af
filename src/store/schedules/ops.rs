//! What people and executors do with schedules, on any store.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::due::BYTES;
use super::{Fate, Firing, ScheduleInfo, Which};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{JobId, JobMessage, ScheduleSpec};
use crate::store::{Hint, JobStore, Note, Order};

/// Most occurrences one call fills in.
pub const BACKFILL_MAX: usize = 10_000;
/// Schedules looked at in one round.
const ROUND: usize = 100;
/// Jobs sent with one statement.
const BATCH: usize = 1000;
/// How often a change is tried again that met another one.
const TRIES: usize = 20;

/// What a put did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PutOutcome {
    /// There was none of this name.
    Created,
    /// It was changed.
    Changed,
    /// It was like this already.
    Unchanged,
}

/// A schedule after it was put.
#[derive(Clone, Debug)]
pub struct Put {
    /// What happened.
    pub outcome: PutOutcome,
    /// How it stands now.
    pub schedule: ScheduleInfo,
}

/// What a round of due schedules did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fired {
    /// Schedules that moved on.
    pub schedules: u64,
    /// Jobs that were sent.
    pub jobs: u64,
    /// Who has to hear of them.
    pub hints: Vec<Hint>,
    /// Schedules that have more missed occurrences than one round sends: the next round goes on with them.
    pub unfinished: Vec<String>,
    /// Schedules that sent nothing because the job before is not over.
    pub overlapped: Vec<String>,
}

/// What a backfill did, or would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Backfilled {
    /// Occurrences in that time.
    pub occurrences: u64,
    /// Jobs that were sent: fewer where the job of an occurrence is still there. 0 in a dry run.
    pub jobs: u64,
    /// The queue they wait in.
    pub queue: String,
    /// Who has to hear of them.
    #[serde(skip)]
    pub hint: Hint,
}

/// Who has to hear of a job.
fn hint(message: &JobMessage) -> Hint {
    if message.is_blocked_at_first() { Hint::Gate } else { Hint::Queue(message.queue.clone()) }
}

/// Keeps a schedule, in place of the one of that name if there is one. That keeps its past, and its next occurrence unless
/// schedule, zone, end or number of times changed. A paused one stays paused.
///
/// Here and below, `by` is the operator, who gets an entry in the audit if something changed; `None` = nobody is to be remembered.
///
/// # Errors
/// When `seen` is given, and the schedule has another version (or is not there): somebody else has changed it. When the operator's name
/// makes no sense.
pub async fn put(jobs: &dyn JobStore, spec: &ScheduleSpec, seen: Option<i64>, by: Option<&str>) -> Result<Put> {
    for _ in 0..TRIES {
        let (now, old) = read(jobs, &spec.name).await?;
        if let Some(seen) = seen
            && old.as_ref().map(|old| old.version) != Some(seen)
        {
            let is = old.map_or("it is not there".to_owned(), |old| format!("its version is {}", old.version));
            return Err(Error::invalid(format!(
                "the schedule {:?} in {} was changed by somebody else: {is}, not {seen}; look at it and put it again",
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
        let note = Note::new(by, "put-schedule", what(spec, outcome))?;
        let schedule = replacement(spec, old, now);
        if jobs.write_schedule(&schedule, before, note.as_ref()).await? {
            return Ok(Put { outcome, schedule });
        }
    }
    Err(crowded(jobs, "put", &spec.name))
}

/// What the audit keeps of a schedule that was put. Not the payload: it may be large, and a secret.
fn what(spec: &ScheduleSpec, outcome: PutOutcome) -> Value {
    let ScheduleSpec { name, schedule, message, misfire, overlap, until, times } = spec;
    json!({
        "schedule": name, "outcome": outcome, "when": schedule.text(), "zone": schedule.zone(), "misfire": misfire, "overlap": overlap,
        "until": until, "times": times, "kind": message.kind, "queue": message.queue, "priority": message.priority,
        "max_attempts": message.max_attempts,
    })
}

/// As exact as a database.
fn whole_micros(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

/// How a schedule is to stand after it was put.
fn replacement(spec: &ScheduleSpec, old: Option<ScheduleInfo>, now: Timestamp) -> ScheduleInfo {
    let kept = old.as_ref().filter(|old| old.spec.same_times(spec)).map(|old| (old.anchor, old.next_at));
    let same_schedule = old.as_ref().filter(|old| old.spec.schedule == spec.schedule);
    // A new end is no reason to count from another moment.
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

/// One schedule; `None` = there is none of this name.
pub async fn get(jobs: &dyn JobStore, name: &str) -> Result<Option<ScheduleInfo>> {
    read(jobs, name).await.map(|(_, found)| found)
}

async fn read(jobs: &dyn JobStore, name: &str) -> Result<(Timestamp, Option<ScheduleInfo>)> {
    let names = [name.to_owned()];
    let (now, mut found) = jobs.read_schedules(Which::Named(&names)).await?;
    Ok((now, found.pop()))
}

async fn existing(jobs: &dyn JobStore, name: &str) -> Result<(Timestamp, ScheduleInfo)> {
    let (now, found) = read(jobs, name).await?;
    let found = found.ok_or_else(|| {
        Error::invalid(format!(
            "there is no schedule {name:?} in {}: look for it in the list of schedules",
            jobs.describe()
        ))
    })?;
    Ok((now, found))
}

fn crowded(jobs: &dyn JobStore, what: &str, name: &str) -> Error {
    Error::new(
        ErrorKind::Busy,
        format!(
            "can't {what} the schedule {name:?} in {}: it is changed all the time; nothing was changed, try again",
            jobs.describe()
        ),
    )
}

/// Stops a schedule until it is resumed. `false`: it was paused already.
///
/// # Errors
/// When there is none of this name.
pub async fn pause(jobs: &dyn JobStore, name: &str, by: Option<&str>) -> Result<bool> {
    set_paused(jobs, name, true, by).await
}

/// Lets a schedule go on, with the first occurrence from now: what would have happened meanwhile is not made up for.
/// `false`: it was not paused.
///
/// # Errors
/// When there is none of this name.
pub async fn resume(jobs: &dyn JobStore, name: &str, by: Option<&str>) -> Result<bool> {
    set_paused(jobs, name, false, by).await
}

async fn set_paused(jobs: &dyn JobStore, name: &str, paused: bool, by: Option<&str>) -> Result<bool> {
    let action = if paused { "pause-schedule" } else { "resume-schedule" };
    let note = Note::new(by, action, json!({ "schedule": name }))?;
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

/// Removes a schedule; jobs it has sent stay. `false`: there was none of this name.
///
/// # Errors
/// When the store can't be reached.
pub async fn delete(jobs: &dyn JobStore, name: &str, by: Option<&str>) -> Result<bool> {
    let note = Note::new(by, "delete-schedule", json!({ "schedule": name }))?;
    Ok(jobs.delete_schedules(&[name.to_owned()], note.as_ref()).await? > 0)
}

/// Sends a job of a schedule now, beside its occurrences, whether or not it is paused. Returns the job, and who has to hear
/// of it.
///
/// # Errors
/// When there is none of this name.
pub async fn run_now(jobs: &dyn JobStore, name: &str, by: Option<&str>) -> Result<(JobId, Hint)> {
    let (now, schedule) = existing(jobs, name).await?;
    let message = schedule.spec.extra(now);
    let (id, hint) = (message.id, hint(&message));
    let mut note = Note::new(by, "run-schedule", json!({ "schedule": name, "job": id }))?;
    send(jobs, &[message], note.as_mut()).await?;
    Ok((id, hint))
}

async fn send(jobs: &dyn JobStore, messages: &[JobMessage], note: Option<&mut Note<'_>>) -> Result<u64> {
    match note {
        Some(note) => jobs.send_of_schedule(messages, note).await,
        None => Ok(jobs.insert(messages, None).await?.rows),
    }
}

/// Sends the jobs of all occurrences from `from` up to `to`, without that moment, also those that have happened: but not where
/// the job of an occurrence is still there. At most [`BACKFILL_MAX`].
///
/// # Errors
/// When there is no schedule of this name, `to` is in the future, or there are too many.
pub async fn backfill(
    jobs: &dyn JobStore,
    name: &str,
    (from, to): (Timestamp, Timestamp),
    Order { dry_run, by }: Order<'_>,
) -> Result<Backfilled> {
    let (now, schedule) = existing(jobs, name).await?;
    let spec = &schedule.spec;
    if from >= to || to > now {
        return Err(Error::invalid(format!(
            "can't fill in {name:?} from {from} to {to}: the time must begin before it ends, and end before now ({now})"
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
            "{name:?} happens more than {BACKFILL_MAX} times from {from} to {to}: fill in a shorter time at once"
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
        let mut note = Note::new(by, "backfill-schedule", what)?;
        for batch in batches(spec, &occurrences) {
            let messages: Vec<JobMessage> = batch.iter().map(|at| spec.occurrence(*at)).collect();
            // Each batch may be repeated: an occurrence is one job.
            done.jobs += send(jobs, &messages, note.as_mut()).await?;
        }
    }
    Ok(done)
}

fn batches<'a>(spec: &ScheduleSpec, occurrences: &'a [Timestamp]) -> std::slice::Chunks<'a, Timestamp> {
    let size = spec.message.payload.as_bytes().len().max(1);
    occurrences.chunks((BYTES / size).clamp(1, BATCH))
}

/// Lets what is due happen: at most `limit` jobs, but at least one for each of up to 100 schedules. Call until [`JobStore::next_schedule`](super::Schedules) says later.
pub async fn fire_due(jobs: &dyn JobStore, limit: usize) -> Result<Fired> {
    let (now, due) = jobs.read_schedules(Which::Due(ROUND)).await?;
    // All that are due get their share: none has to wait until another has made up for a year.
    let share = |all: usize| (all / due.len().max(1)).max(1);
    let firings: Vec<Firing> = due
        .iter()
        // The database said that they are; a row that says something else was changed by hand.
        .filter_map(|info| info.next_at.filter(|at| *at <= now).map(|at| (info, at)))
        .map(|(info, at)| Firing::plan(info, at, now, (share(limit), share(BYTES))))
        .collect();
    if firings.is_empty() {
        return Ok(Fired::default());
    }
    let mut fired = Fired::default();
    for (firing, fate) in firings.iter().zip(jobs.fire_schedules(&firings).await?) {
        match fate {
            Fate::Lost => continue,
            Fate::LeftOut => fired.overlapped.push(firing.name.clone()),
            Fate::Sent => {
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
