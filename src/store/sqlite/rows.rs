//! From columns to values and back.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::types::{FromSqlError, Type};
use rusqlite::{Row, RowIndex};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::job::{AttemptError, Fence, Job, JobId, NodeId, Payload, RowPlace, Terms};
use crate::store::settle::{ERRORS_KEPT, Settlement};
use crate::store::{JobDetail, JobState, JobSummary};

/// Microseconds: since 1970 UTC, or of a duration.
pub(super) type Micros = i64;

/// No delay is longer: what is due in a thousand years need not be told from what is due later, and `now + delay` can't
/// leave the range of a timestamp.
const LONGEST: Micros = 1000 * 366 * 24 * 3600 * 1_000_000;

/// A duration as it is stored.
pub(super) fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).map_or(LONGEST, |micros| micros.min(LONGEST))
}

/// Any number of ids as one parameter: a JSON array of their hexadecimal texts.
pub(super) fn id_list(ids: &[JobId]) -> String {
    let texts: Vec<String> = ids.iter().map(|id| format!("\"{}\"", id.as_uuid().simple())).collect();
    format!("[{}]", texts.join(","))
}

/// Any number of claims as two parameters (`sql/part/still_owned.sql`): their ids, and a JSON array of their versions.
pub(super) fn fence_lists(fences: &[Fence]) -> (Vec<u8>, String) {
    let ids = fences.iter().flat_map(|fence| *fence.id.as_uuid().as_bytes()).collect();
    let versions: Vec<String> = fences.iter().map(|fence| fence.version.to_string()).collect();
    (ids, format!("[{}]", versions.join(",")))
}

/// A number of rows as SQLite counts.
pub(super) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn broken(
    column: &str,
    kind: Type,
    why: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> rusqlite::Error {
    let why = why.into();
    rusqlite::Error::FromSqlConversionFailure(0, kind, format!("the column {column} can't be read: {why}").into())
}

/// A moment as it is stored.
pub(super) fn timestamp(micros: Micros) -> rusqlite::Result<Timestamp> {
    Timestamp::from_microsecond(micros).map_err(|e| broken("of a time", Type::Integer, e))
}

pub(super) fn optional_timestamp(micros: Option<Micros>) -> rusqlite::Result<Option<Timestamp>> {
    micros.map(timestamp).transpose()
}

pub(super) fn job_id(row: &Row<'_>, column: &str) -> rusqlite::Result<JobId> {
    Ok(Uuid::from_bytes(row.get(column)?).into())
}

/// `-priority`.
pub(super) fn rank(row: &Row<'_>) -> rusqlite::Result<i16> {
    let rank: i64 = row.get("rank")?;
    i16::try_from(rank).map_err(|e| broken("rank", Type::Integer, e))
}

/// The priority that a rank stands for.
fn priority(rank: i64) -> rusqlite::Result<i16> {
    i16::try_from(rank.saturating_neg()).map_err(|e| broken("rank", Type::Integer, e))
}

/// From the columns payload, body and content type.
pub(super) fn payload<I: RowIndex>(row: &Row<'_>, [json, body, content_type]: [I; 3]) -> rusqlite::Result<Payload> {
    match row.get_ref(json)?.as_str_or_null()? {
        // A foreign writer may have stored what is not JSON: then it is given as bytes, rather than blocking its queue.
        Some(text) => Ok(serde_json::from_str::<&RawValue>(text)
            .map_or_else(|_| Payload::text(text), |raw| Payload::Json(raw.to_owned()))),
        None => Ok(Payload::Bytes {
            content_type: row
                .get::<_, Option<String>>(content_type)?
                .unwrap_or_else(|| "application/octet-stream".to_owned()),
            body: row.get::<_, Option<Vec<u8>>>(body)?.unwrap_or_default(),
        }),
    }
}

pub(super) fn headers<I: RowIndex>(row: &Row<'_>, column: I) -> rusqlite::Result<BTreeMap<String, String>> {
    row.get_ref(column)?.as_str_or_null()?.map_or_else(
        || Ok(BTreeMap::new()),
        |text| serde_json::from_str(text).map_err(|e| broken("headers", Type::Text, e)),
    )
}

/// Not the default where they can't be read: a job without its group would run beside what it must not.
pub(super) fn terms<I: RowIndex>(row: &Row<'_>, column: I) -> rusqlite::Result<Terms> {
    row.get_ref(column)?
        .as_str_or_null()?
        .map_or_else(|| Ok(Terms::default()), |text| Terms::from_json(text).map_err(|e| broken("terms", Type::Text, e)))
}

/// The same, as far as admission goes by it.
pub(super) fn gates<I: RowIndex>(row: &Row<'_>, column: I) -> rusqlite::Result<Terms> {
    Ok(row.get_ref(column)?.as_str_or_null()?.map_or_else(Terms::default, Terms::of_gates))
}

/// The job of a row that `claim.sql` returned, with its rank. By position (`part/job_columns.sql`): finding fifteen columns by name cost
/// more than reading them.
pub(super) fn job(row: &Row<'_>) -> rusqlite::Result<Job> {
    Ok(Job {
        id: Uuid::from_bytes(row.get(0)?).into(),
        seq: row.get(1)?,
        version: row.get(2)?,
        kind: row.get(3)?,
        queue: row.get(4)?,
        priority: priority(row.get(5)?)?,
        attempt: row.get(6)?,
        max_attempts: row.get(7)?,
        created_at: timestamp(row.get(8)?)?,
        payload: payload(row, [9, 10, 11])?,
        headers: headers(row, 12)?,
        terms: terms(row, 13)?,
        admitted: row.get(14)?,
        place: RowPlace::default(),
    })
}

/// As near as it can be said: what is only looked at is shown, whatever somebody else wrote there.
fn nearest(micros: Micros) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap_or(if micros < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

/// The columns that `list.sql` and `show.sql` have in common.
pub(super) fn summary(row: &Row<'_>, state: JobState) -> rusqlite::Result<JobSummary> {
    let attempts = |column: &str| row.get::<_, i64>(column).map(|n| n.clamp(0, u32::MAX.into()) as u32);
    Ok(JobSummary {
        id: job_id(row, "id")?,
        seq: row.get("seq")?,
        state,
        kind: row.get("kind")?,
        queue: row.get("queue")?,
        priority: row.get::<_, i64>("rank")?.saturating_neg().clamp(i16::MIN.into(), i16::MAX.into()) as i16,
        attempt: attempts("attempt")?,
        max_attempts: attempts("max_attempts")?,
        created_at: nearest(row.get("created_at")?),
        due_at: row.get::<_, Option<Micros>>(8)?.map(nearest),
        owner: row.get::<_, Option<i64>>(9)?.map(NodeId),
        claimed_at: row.get::<_, Option<Micros>>(10)?.map(nearest),
        last_error: row.get(11)?,
    })
}

/// A row of `show.sql`.
pub(super) fn detail(row: &Row<'_>) -> rusqlite::Result<JobDetail> {
    let state: String = row.get("state")?;
    let state = state.parse().map_err(|_| FromSqlError::InvalidType)?;
    let dead_at: Option<Micros> = row.get("dead_at")?;
    let reason: Option<String> = row.get("reason")?;
    Ok(JobDetail {
        summary: summary(row, state)?,
        version: row.get("version")?,
        errors: errors(row.get::<_, Option<String>>("errors")?.as_deref()),
        // To be looked at and not to be run: what can't be read is left out, and the reason of such a dead letter says why.
        headers: headers(row, "headers").unwrap_or_default(),
        payload: payload(row, ["payload", "body", "content_type"])?,
        terms: terms(row, "terms").unwrap_or_default(),
        gate: row.get("gate")?,
        dead: dead_at.map(|at| (nearest(at), reason.unwrap_or_default())),
    })
}

/// The record of a job. What can't be read is left out: it must not keep the job from being settled.
fn errors(text: Option<&str>) -> Vec<AttemptError> {
    let values: Vec<serde_json::Value> = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    values.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect()
}

/// The record with one more error, as it is stored: the newest are kept.
pub(super) fn with_error(text: Option<&str>, error: AttemptError) -> rusqlite::Result<String> {
    let mut all = errors(text);
    all.push(error);
    all.drain(..all.len().saturating_sub(ERRORS_KEPT));
    serde_json::to_string(&all).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))
}

/// How many errors of a record begin like this, counted back to where the job's present life began: attempts rise until a dead
/// letter starts again with none.
pub(super) fn deaths(record: &str, beginning: &str) -> u32 {
    let mut deaths = 0;
    let mut later = u32::MAX;
    for error in errors(Some(record)).iter().rev() {
        if error.attempt > later {
            break;
        }
        later = error.attempt;
        deaths += u32::from(error.error.starts_with(beginning));
    }
    deaths
}

/// What a settlement adds to the record, if it has an error.
pub(super) fn attempt_error(
    settlement: &Settlement,
    attempt: u32,
    node: NodeId,
    now: Micros,
) -> rusqlite::Result<Option<AttemptError>> {
    let Some(error) = &settlement.error else {
        return Ok(None);
    };
    let (error, detail) = (error.clone(), settlement.detail.clone());
    Ok(Some(AttemptError { attempt, at: timestamp(now)?, node: node.0, error, detail }))
}
