//! Converts rows to values. A column that can't be read is an error, never a panic: the schema may belong to another version.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::row::RowIndex;
use tokio_postgres::types::FromSql;
use uuid::Uuid;

use super::types::{JsonText, ShownTime, Tid};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Fence, JobId, JobOptions, Payload, RowLocation};

/// Reads a column by its name, or by its position where a row has one column only.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: impl RowIndex + fmt::Display) -> Result<T> {
    row.try_get(column).map_err(|e| {
        Error::new(
            ErrorKind::Schema,
            "a column does not have the type that this build expects: compare the schema (`jobwright migrate --status`)",
        )
        .with_source(e)
    })
}

/// Finds a column by its name.
pub(super) fn position(row: &Row, column: &str) -> Result<usize> {
    row.columns().iter().position(|one| one.name() == column).ok_or_else(|| {
        Error::new(
            ErrorKind::Schema,
            format!("an answer has no column {column}: compare the schema (`jobwright migrate --status`)"),
        )
    })
}

pub(super) fn single(rows: &[Row]) -> Result<&Row> {
    rows.first().ok_or_else(|| Error::new(ErrorKind::Database, "the server returned no row where one was expected"))
}

/// Converts a limit or a number of attempts to the database's integer type.
pub(super) fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Converts a duration to microseconds, as the statements take it. The result is at most a thousand years, so that `now + duration` can't
/// leave the range of a timestamp.
pub(super) fn micros(duration: Duration) -> i64 {
    const LONGEST: i64 = 1000 * 366 * 24 * 3600 * 1_000_000;
    i64::try_from(duration.as_micros()).map_or(LONGEST, |micros| micros.min(LONGEST))
}

pub(super) fn attempts(n: i32) -> u32 {
    u32::try_from(n).unwrap_or(0)
}

/// Reads a `ctid` column; null means unknown.
pub(super) fn location(row: &Row, column: impl RowIndex + fmt::Display) -> Result<RowLocation> {
    get(row, column).map(known_location)
}

/// Converts a `ctid`; null means unknown.
pub(super) fn known_location(ctid: Option<Tid>) -> RowLocation {
    ctid.map(RowLocation::from).unwrap_or_default()
}

/// Reads a time to be shown.
pub(super) fn shown_time(row: &Row, column: impl RowIndex + fmt::Display) -> Result<Timestamp> {
    get(row, column).map(|ShownTime(time)| time)
}

/// Reads a time to be shown, which may be null.
pub(super) fn some_time(row: &Row, column: impl RowIndex + fmt::Display) -> Result<Option<Timestamp>> {
    get::<Option<ShownTime>>(row, column).map(|time| time.map(|ShownTime(time)| time))
}

/// Reads the payload from the columns payload, body and content type.
pub(super) fn payload<I: RowIndex + fmt::Display>(row: &Row, [json, body, content_type]: [I; 3]) -> Result<Payload> {
    let json: Option<JsonText<'_>> = get(row, json)?;
    if let Some(JsonText(text)) = json {
        return raw(text).map(Payload::Json);
    }
    let body: Option<Vec<u8>> = get(row, body)?;
    let content_type: Option<String> = get(row, content_type)?;
    Ok(Payload::Bytes {
        content_type: content_type.unwrap_or_else(|| "application/octet-stream".to_owned()),
        body: body.unwrap_or_default(),
    })
}

/// Keeps a JSON text as it is.
pub(super) fn raw(text: &str) -> Result<Box<serde_json::value::RawValue>> {
    serde_json::value::RawValue::from_string(text.to_owned())
        .map_err(|e| Error::new(ErrorKind::Database, "the server returned invalid JSON").with_source(e))
}

/// Reads a `jsonb` column as a payload.
pub(super) fn json_payload(row: &Row, column: impl RowIndex + fmt::Display) -> Result<Payload> {
    let JsonText(text) = get(row, column)?;
    raw(text).map(Payload::Json)
}

pub(super) fn headers(row: &Row, column: impl RowIndex + fmt::Display) -> Result<BTreeMap<String, String>> {
    json(row, column)
}

/// Reads the options of a job. Unreadable options are an error and not the default: a job without its group would run beside others that it
/// must not overlap.
pub(super) fn options(row: &Row, column: impl RowIndex + fmt::Display) -> Result<JobOptions> {
    let text: Option<JsonText<'_>> = get(row, column)?;
    text.map_or_else(|| Ok(JobOptions::default()), |JsonText(text)| JobOptions::from_json(text))
}

/// Reads the options that admission needs.
pub(super) fn blocking_options(row: &Row, column: impl RowIndex + fmt::Display) -> Result<JobOptions> {
    let text: Option<JsonText<'_>> = get(row, column)?;
    Ok(text.map_or_else(JobOptions::default, |JsonText(text)| JobOptions::for_admission(text)))
}

/// Reads a `jsonb` column as a value; null gives the default. So does a value of another shape: a row written by hand must not stop a whole
/// batch.
pub(super) fn json<T: serde::de::DeserializeOwned + Default>(
    row: &Row,
    column: impl RowIndex + fmt::Display,
) -> Result<T> {
    let text: Option<JsonText<'_>> = get(row, column)?;
    Ok(text
        .and_then(|JsonText(text)| {
            serde_json::from_str(text)
                .inspect_err(
                    |error| tracing::warn!(%error, "a column holds JSON of another shape than expected; ignored"),
                )
                .ok()
        })
        .unwrap_or_default())
}

/// PostgreSQL's range of timestamps begins later than jiff's.
const EARLIEST: Timestamp = Timestamp::constant(-180_000_000_000, 0);

/// Limits a timestamp to the range of PostgreSQL.
pub(super) fn moment(moment: Option<Timestamp>) -> Option<Timestamp> {
    moment.map(|moment| moment.max(EARLIEST))
}

/// Reads a single row with a count.
/// Reads a count, which the server returns as a signed number.
pub(super) fn counted(row: &Row, column: &str) -> Result<u64> {
    get::<i64>(row, column).map(i64::unsigned_abs)
}

pub(super) fn single_count(rows: &[Row]) -> Result<u64> {
    Ok(get::<i64>(single(rows)?, 0)?.unsigned_abs())
}

/// Returns the numbers in the first column.
pub(super) fn numbers(rows: &[Row]) -> Result<Vec<i64>> {
    rows.iter().map(|row| get(row, 0)).collect()
}

/// Returns the ids in the first column.
pub(super) fn job_ids(rows: &[Row]) -> Result<Vec<JobId>> {
    rows.iter().map(|row| get::<Uuid>(row, 0).map(JobId::from)).collect()
}

/// Turns fences into one array per column: ids and versions.
pub(super) fn fence_columns(fences: &[Fence]) -> (Vec<Uuid>, Vec<i64>) {
    fences.iter().map(|fence| (*fence.id.as_uuid(), fence.version)).unzip()
}
