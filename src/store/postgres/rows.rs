//! From rows to values. A column that can't be read is an error and never a panic: the schema may not be ours.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::types::{JsonText, Tid};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Payload, RowPlace, Terms};

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

/// A limit or an attempt as the database counts.
pub(super) fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// A duration as the statements take it. None is longer than a thousand years, so that `now + duration` can't leave the range of
/// a timestamp.
pub(super) fn micros(duration: Duration) -> i64 {
    const LONGEST: i64 = 1000 * 366 * 24 * 3600 * 1_000_000;
    i64::try_from(duration.as_micros()).map_or(LONGEST, |micros| micros.min(LONGEST))
}

pub(super) fn attempts(n: i32) -> u32 {
    u32::try_from(n).unwrap_or(0)
}

/// A `ctid` column; null: unknown.
pub(super) fn place(row: &Row, column: usize) -> Result<RowPlace> {
    Ok(get::<Option<Tid>>(row, column)?.map(RowPlace::from).unwrap_or_default())
}

/// The payload, from the three columns that start at `column`: payload, body, `content_type`.
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

/// A JSON text as it is.
pub(super) fn raw(text: &str) -> Result<Box<serde_json::value::RawValue>> {
    serde_json::value::RawValue::from_string(text.to_owned())
        .map_err(|e| Error::new(ErrorKind::Database, "the server returned JSON that is none").with_source(e))
}

/// A `jsonb` column as a payload.
pub(super) fn json_payload(row: &Row, column: usize) -> Result<Payload> {
    let JsonText(text) = get(row, column)?;
    raw(text).map(Payload::Json)
}

pub(super) fn headers(row: &Row, column: usize) -> Result<BTreeMap<String, String>> {
    json(row, column)
}

/// The terms of a job. Not the default where they can't be read: a job without its group would run beside what it must not.
pub(super) fn terms(row: &Row, column: usize) -> Result<Terms> {
    let text: Option<JsonText<'_>> = get(row, column)?;
    text.map_or_else(|| Ok(Terms::default()), |JsonText(text)| Terms::from_json(text))
}

/// The same, as far as admission goes by it.
pub(super) fn gates(row: &Row, column: usize) -> Result<Terms> {
    let text: Option<JsonText<'_>> = get(row, column)?;
    Ok(text.map_or_else(Terms::default, |JsonText(text)| Terms::of_gates(text)))
}

/// A `jsonb` column as a value; null gives the default. What does not fit is the default too: a row written by hand must not
/// stop a whole batch.
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
