//! The codec for the project's own tests: not part of the API.

use std::time::Instant;

use lapin::BasicProperties;

use super::{ExternalReport, Refusal, RowRef};
use crate::broker::{Incoming, Names, Outgoing, Tag};
use crate::job::{Fence, Job, Limits, Payload, ReportKey, Submission};

/// Why a message is refused: the word for programs, and the text for people.
pub type Refused = (&'static str, String);

/// A message as it would be published: exchange, routing key, properties, body.
pub type Message = (String, String, BasicProperties, Vec<u8>);

/// A report of an external worker: the claim, the status, and the result or the error.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The claim it is about.
    pub fence: Fence,
    /// `done`, `failed` or `extend`.
    pub status: &'static str,
    /// The result.
    pub result: Option<Payload>,
    /// The error.
    pub error: Option<String>,
}

/// Reads a submission.
///
/// # Errors
/// When it is refused.
pub fn submission(properties: BasicProperties, body: Vec<u8>) -> Result<Submission, Refused> {
    super::submission(&incoming(properties, body), Limits::default()).map_err(words)
}

/// Reads a report without checking its token.
///
/// # Errors
/// When it is refused.
pub fn report(properties: BasicProperties, body: Vec<u8>) -> Result<Report, Refused> {
    read_report(properties, body, None)
}

/// Reads a report on a job that [`external`] wrote.
///
/// # Errors
/// When it is refused, also without the token of that job.
pub fn report_on_external(properties: BasicProperties, body: Vec<u8>) -> Result<Report, Refused> {
    read_report(properties, body, Some(&key()))
}

/// Reads a delivery to executors: the rows it names, and their kinds.
///
/// # Errors
/// When it is refused.
pub fn delivery(properties: BasicProperties, body: Vec<u8>) -> Result<Vec<(Fence, String)>, Refused> {
    let rows = super::read_delivery(&incoming(properties, body)).map_err(words)?;
    Ok(rows.into_iter().map(|row| (row.fence, row.kind)).collect())
}

/// Writes a delivery. `None`: there are no rows.
pub fn delivery_of(names: &Names, queue: &str, rows: &[(Fence, String)]) -> Option<Message> {
    let rows: Vec<_> = rows.iter().map(|(fence, kind)| RowRef { fence: *fence, kind: kind.clone() }).collect();
    let Outgoing { exchange, routing_key, properties, body, .. } = super::delivery(names, queue, &rows)?;
    Some((exchange, routing_key, properties, body))
}

/// Returns the token that a worker has to send back.
pub fn report_token(key: &ReportKey, fence: Fence) -> String {
    key.token(fence)
}

fn read_report(properties: BasicProperties, body: Vec<u8>, key: Option<&ReportKey>) -> Result<Report, Refused> {
    let report = super::report(&incoming(properties, body), Limits::default(), key).map_err(words)?;
    Ok(match report {
        ExternalReport::Done { fence, result } => Report { fence, status: "done", result, error: None },
        ExternalReport::Failed { fence, error, .. } => {
            Report { fence, status: "failed", result: None, error: Some(error) }
        }
        ExternalReport::Extend { fence, .. } => Report { fence, status: "extend", result: None, error: None },
    })
}

/// Writes a job for an external worker.
pub fn external(names: &Names, job: &Job) -> Message {
    let Outgoing { exchange, routing_key, properties, body, .. } = super::external(names, job.clone(), &key());
    (exchange, routing_key, properties, body)
}

pub(super) fn key() -> ReportKey {
    ReportKey::new([7; 32])
}

fn words(refusal: Refusal) -> Refused {
    (refusal.reason, refusal.text)
}

pub(super) fn incoming(properties: BasicProperties, body: Vec<u8>) -> Incoming {
    Incoming { properties, body, redelivered: false, received: Instant::now(), tag: Tag { generation: 1, tag: 1 } }
}
