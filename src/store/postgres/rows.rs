//! Converts rows to values. A column that can't be read is an error, never a panic: the schema may belong to another version.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::types::{JsonText, Tid};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{JobOptions, Payload, RowLocation};

pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T> {
    row.try_get(column).map_err(|e| {
        Error::new(
            ErrorKind::Schema,
            "a column has not the type this build expects: compare the schema (`jobwright migrate --status`)",
        )
        .with_source(e)
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
pub(super) fn location(row: &Row, column: usize) -> Result<RowLocation> {
    Ok(get::<Option<Tid>>(row, column)?.map(RowLocation::from).unwrap_or_default())
}

/// Reads the payload from the three columns that start at `column`: payload, body, `content_type`.
pub(super) fn payload(row: &Row, column: usize) -> Result<Payload> {
    let json: Option<JsonText<'_>> = get(row, column)?;
    if let Some(JsonText(text)) = json {
        return serde_json::value::RawValue::from_string(text.to_owned()).map(Payload::Json).map_err(|e| {
            Error::new(ErrorKind::Database, "the server returned a payload that is not JSON").with_source(e)
        });
    }
    let body: Option<Vec<u8>> = get(row, column + 1)?;
    let content_type: Option<String> = get(row, column + 2)?;
    Ok(Payload::Bytes {
        content_type: content_type.unwrap_or_else(|| "application/octet-stream".to_owned()),
        body: body.unwrap_or_default(),
    })
}

/// Keeps a JSON text as it is.
pub(super) fn raw(text: &str) -> Result<Box<serde_json::value::RawValue>> {
    serde_json::value::RawValue::from_string(text.to_owned())
        .map_err(|e| Error::new(ErrorKind::Database, "the server returned JSON that is none").with_source(e))
}

/// Reads a `jsonb` column as a payload.
pub(super) fn json_payload(row: &Row, column: usize) -> Result<Payload> {
    let JsonText(text) = get(row, column)?;
    raw(text).map(Payload::Json)
}

pub(super) fn headers(row: &Row, column: usize) -> Result<BTreeMap<String, String>> {
    json(row, column)
}

/// Reads the options of a job. Unreadable options are an error and not the default: a job without its group would run beside others that it
/// must not overlap.
pub(super) fn options(row: &Row, column: usize) -> Result<JobOptions> {
    let text: Option<JsonText<'_>> = get(row, column)?;
    text.map_or_else(|| Ok(JobOptions::default()), |JsonText(text)| JobOptions::from_json(text))
}

/// Reads the options that admission needs.
pub(super) fn blocking_options(row: &Row, column: usize) -> Result<JobOptions> {
    let text: Option<JsonText<'_>> = get(row, column)?;
    Ok(text.map_or_else(JobOptions::default, |JsonText(text)| JobOptions::for_admission(text)))
}

/// Reads a `jsonb` column as a value; null gives the default. So does a value of another shape: a row written by hand must not stop a whole
/// batch.
pub(super) fn json<T: serde::de::DeserializeOwned + Default>(row: &Row, column: usize) -> Result<T> {
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
