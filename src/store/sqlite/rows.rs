//! Converts columns to values and back.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::types::{FromSqlError, Type};
use rusqlite::{Row, RowIndex};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::job::{AttemptError, Fence, JobId, JobOptions, NodeId, Payload};
use crate::store::settle::{ERRORS_KEPT, Settlement};
use crate::store::{JobDetail, JobState, JobSummary};

/// Microseconds: since 1970 UTC, or of a duration.
pub(super) type Micros = i64;

/// The longest duration. Nothing needs to distinguish a thousand years from more, and `now + delay` can't leave the range of a timestamp.
const LONGEST: Micros = 1000 * 366 * 24 * 3600 * 1_000_000;

/// Converts a duration to its stored form.
pub(super) fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).map_or(LONGEST, |micros| micros.min(LONGEST))
}

/// Encodes any number of ids as one parameter: a JSON array of their hexadecimal texts.
pub(super) fn id_list(ids: &[JobId]) -> String {
    let texts: Vec<String> = ids.iter().map(|id| format!("\"{}\"", id.as_uuid().simple())).collect();
    format!("[{}]", texts.join(","))
}

/// Encodes names of queues or kinds as one parameter: a JSON array.
pub(super) fn name_list(names: &[String]) -> Result<String> {
    serde_json::to_string(names)
        .map_err(|error| Error::invalid("names of queues or kinds can't be written as JSON").with_source(error))
}

/// Encodes any number of claims as two parameters (the fragment `still_owned`): their ids, and a JSON array of their versions.
pub(super) fn fence_lists(fences: &[Fence]) -> (Vec<u8>, String) {
    let ids = fences.iter().flat_map(|fence| *fence.id.as_uuid().as_bytes()).collect();
    let versions: Vec<String> = fences.iter().map(|fence| fence.version.to_string()).collect();
    (ids, format!("[{}]", versions.join(",")))
}

/// Converts a number of rows to SQLite's integer type.
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

/// Converts a stored timestamp.
pub(super) fn timestamp(micros: Micros) -> rusqlite::Result<Timestamp> {
    Timestamp::from_microsecond(micros).map_err(|e| broken("of a time", Type::Integer, e))
}

pub(super) fn optional_timestamp(micros: Option<Micros>) -> rusqlite::Result<Option<Timestamp>> {
    micros.map(timestamp).transpose()
}

pub(super) fn job_id(row: &Row<'_>, column: &str) -> rusqlite::Result<JobId> {
    Ok(Uuid::from_bytes(row.get(column)?).into())
}

/// Reads a count, which SQLite returns as a signed number.
pub(super) fn number(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

/// Reads a rank, which is `-priority`.
pub(super) fn rank(row: &Row<'_>) -> rusqlite::Result<i16> {
    let rank: i64 = row.get("rank")?;
    i16::try_from(rank).map_err(|e| broken("rank", Type::Integer, e))
}

/// Converts a rank to its priority.
pub(super) fn priority(rank: i64) -> rusqlite::Result<i16> {
    i16::try_from(rank.saturating_neg()).map_err(|e| broken("rank", Type::Integer, e))
}

/// Returns the columns payload, body and `content_type` of a payload.
pub(super) fn content(payload: &Payload) -> (Option<&str>, Option<&[u8]>, Option<&str>) {
    match payload {
        Payload::Json(raw) => (Some(raw.get()), None, None),
        Payload::Bytes { content_type, body } => (None, Some(body), Some(content_type)),
    }
}

/// Returns headers as JSON, or NULL if there are none.
pub(super) fn header_text(headers: &BTreeMap<String, String>) -> Result<Option<String>> {
    (!headers.is_empty())
        .then(|| serde_json::to_string(headers))
        .transpose()
        .map_err(|error| Error::invalid("the headers can't be written as JSON").with_source(error))
}

/// Reads the payload from the columns payload, body and content type.
pub(super) fn payload<I: RowIndex>(row: &Row<'_>, [json, body, content_type]: [I; 3]) -> rusqlite::Result<Payload> {
    match row.get_ref(json)?.as_str_or_null()? {
        // Another writer may have stored invalid JSON. It is then returned as bytes rather than blocking its queue.
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

/// Reads the options of a job. Unreadable options are an error and not the default: a job without its group would run beside others that it
/// must not overlap.
pub(super) fn options<I: RowIndex>(row: &Row<'_>, column: I) -> rusqlite::Result<JobOptions> {
    row.get_ref(column)?.as_str_or_null()?.map_or_else(
        || Ok(JobOptions::default()),
        |text| JobOptions::from_json(text).map_err(|e| broken("options", Type::Text, e)),
    )
}

/// Reads the options that admission needs.
pub(super) fn blocking_options<I: RowIndex>(row: &Row<'_>, column: I) -> rusqlite::Result<JobOptions> {
    Ok(row.get_ref(column)?.as_str_or_null()?.map_or_else(JobOptions::default, JobOptions::for_admission))
}

/// Returns the nearest valid timestamp: a listing shows a row whatever another writer stored there.
pub(super) fn nearest(micros: Micros) -> Timestamp {
    Timestamp::from_microsecond(micros).unwrap_or(if micros < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

/// Reads a number of attempts, whatever another writer stored there.
pub(super) fn attempts(row: &Row<'_>, column: &str) -> rusqlite::Result<u32> {
    let count: i64 = row.get(column)?;
    Ok(u32::try_from(count.max(0)).unwrap_or(u32::MAX))
}

/// Reads the column `state`.
pub(super) fn state(row: &Row<'_>) -> rusqlite::Result<JobState> {
    let state: String = row.get("state")?;
    Ok(state.parse().map_err(|_| FromSqlError::InvalidType)?)
}

/// Reads the columns that a list and the details of a job have in common.
pub(super) fn summary(row: &Row<'_>) -> rusqlite::Result<JobSummary> {
    Ok(JobSummary {
        id: job_id(row, "id")?,
        seq: row.get("seq")?,
        state: state(row)?,
        kind: row.get("kind")?,
        queue: row.get("queue")?,
        priority: row.get::<_, i64>("rank")?.saturating_neg().clamp(i16::MIN.into(), i16::MAX.into()) as i16,
        attempt: attempts(row, "attempt")?,
        max_attempts: attempts(row, "max_attempts")?,
        created_at: nearest(row.get("created_at")?),
        due_at: row.get::<_, Option<Micros>>("due_at")?.map(nearest),
        owner: row.get::<_, Option<i64>>("owner")?.map(NodeId),
        claimed_at: row.get::<_, Option<Micros>>("claimed_at")?.map(nearest),
        last_error: row.get("last_error")?,
    })
}

/// Reads a row of `show`.
pub(super) fn detail(row: &Row<'_>) -> rusqlite::Result<JobDetail> {
    let dead_at: Option<Micros> = row.get("dead_at")?;
    let reason: Option<String> = row.get("reason")?;
    Ok(JobDetail {
        summary: summary(row)?,
        version: row.get("version")?,
        errors: errors(row.get::<_, Option<String>>("errors")?.as_deref()),
        // This is for display only, so options that can't be read are left out. The reason of such a dead letter explains why.
        headers: headers(row, "headers").unwrap_or_default(),
        payload: payload(row, ["payload", "body", "content_type"])?,
        options: options(row, "options").unwrap_or_default(),
        blocked_on: row.get("blocked_on")?,
        dead: dead_at.map(|at| (nearest(at), reason.unwrap_or_default())),
    })
}

/// Reads the error record of a job. Unreadable entries are left out, because they must not keep the job from being settled.
fn errors(text: Option<&str>) -> Vec<AttemptError> {
    let values: Vec<serde_json::Value> = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    values.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect()
}

/// Returns the record with one more error, in its stored form. Only the newest errors are kept.
pub(super) fn with_error(text: Option<&str>, error: AttemptError) -> rusqlite::Result<String> {
    let mut all = errors(text);
    all.push(error);
    all.drain(..all.len().saturating_sub(ERRORS_KEPT));
    serde_json::to_string(&all).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))
}

/// Counts the errors of a record that begin and end with a text, back to the start of the job's present life: attempts rise until a retried
/// dead letter starts again with none.
pub(super) fn deaths(record: &str, beginning: &str, end: &str) -> u32 {
    let mut deaths = 0;
    let mut later = u32::MAX;
    for error in errors(Some(record)).iter().rev() {
        if error.attempt > later {
            break;
        }
        later = error.attempt;
        deaths += u32::from(error.error.starts_with(beginning) && error.error.ends_with(end));
    }
    deaths
}

/// Returns the entry that a settlement adds to the record, if it has an error.
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
