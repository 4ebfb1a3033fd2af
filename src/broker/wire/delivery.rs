//! Deliveries to jobwright's executors: references to rows. The contents of the jobs stay in their rows.
//!
//! A delivery names the rows that one flush sent to one queue, up to [`ROWS`]. Headers name the first row, as they always did, and the body
//! names the others. An executor of an earlier version reads no body. It takes the first row, and finds the others in the table when their
//! head start ends.

use std::borrow::Cow;

use lapin::BasicProperties;
use serde::{Deserialize, Serialize};

use super::fields::{Fields, quoted};
use super::headers::{Headers, short};
use super::{Incoming, Names, Outgoing, Refusal};
use crate::job::{Fence, JobId, NAME_MAX};

/// Survives a restart of the broker.
pub(super) const PERSISTENT: u8 = 2;
/// The most rows of a delivery. Beyond this number, messages are no longer the main cost of a row. And a node with few free slots has to
/// give back the other rows.
pub(crate) const ROWS: usize = 32;
/// The most rows that are read: a later version may put more into one delivery.
const ROWS_MAX: usize = 4 * ROWS;
/// The longest body that is read. Those of this version have a tenth of it.
const BODY_MAX: usize = 64 * 1024;

/// A row that a delivery names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowRef {
    pub(crate) fence: Fence,
    pub(crate) kind: String,
}

/// A row after the first, as the body names it. Further fields of a later version are ignored.
#[derive(Serialize, Deserialize)]
struct Other<'a> {
    id: JobId,
    version: i64,
    /// Its kind, if that differs from the kind of the first.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    kind: Option<Cow<'a, str>>,
}

/// Makes a delivery of rows to one of jobwright's executors. `None`: there is no row.
pub(crate) fn delivery(names: &Names, queue: &str, rows: &[RowRef]) -> Option<Outgoing> {
    let (RowRef { fence, kind }, others) = rows.split_first()?;
    let id = fence.id.to_string();
    let headers = Headers::default().text("jobId", &id).text("jobKind", kind).number("version", fence.version);
    let mut properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_message_id(id.into())
        .with_headers(headers.table());
    if let Some(kind) = short(kind) {
        properties = properties.with_type(kind);
    }
    let mut body = Vec::new();
    if !others.is_empty() {
        properties = properties.with_content_type("application/json".into());
        let others: Vec<_> = others
            .iter()
            .map(|other| Other {
                id: other.fence.id,
                version: other.fence.version,
                kind: (other.kind != *kind).then_some(Cow::Borrowed(&other.kind)),
            })
            .collect();
        // Numbers and texts can always be written. Rows that no executor is told of would be found when their head start ends.
        body = serde_json::to_vec(&others).unwrap_or_default();
    }
    Some(Outgoing { exchange: String::new(), routing_key: names.deliveries(queue), mandatory: true, properties, body })
}

/// Returns the rows that a delivery names, at least one.
pub(crate) fn read_delivery(message: &Incoming) -> Result<Vec<RowRef>, Refusal> {
    let fields = Fields { properties: &message.properties };
    let first = fence(fields)?;
    let kind = fields.filled("jobKind")?.ok_or_else(|| Refusal::new("missing-kind", "header jobKind is missing"))?;
    let mut rows = vec![RowRef { fence: first, kind }];
    if !message.body.is_empty() {
        let kind = &rows[0].kind;
        if kind.len() > NAME_MAX {
            // Each row without a kind would have a copy of it.
            let why = format!(
                "header jobKind has {} bytes, and {NAME_MAX} is the limit if a body names other rows",
                kind.len()
            );
            return Err(Refusal::new("bad-kind", why));
        }
        for Other { id, version, kind } in others(&message.body)? {
            let kind = kind.map_or_else(|| rows[0].kind.clone(), Cow::into_owned);
            if kind.is_empty() {
                return Err(Refusal::new("missing-kind", format!("the body gives job {id} an empty kind")));
            }
            rows.push(RowRef { fence: Fence::new(id, version), kind });
        }
    }
    Ok(rows)
}

fn others(body: &[u8]) -> Result<Vec<Other<'_>>, Refusal> {
    let bad = |why: String| Refusal::new("bad-rows", format!("the body is to name the rows besides the first: {why}"));
    if body.len() > BODY_MAX {
        return Err(bad(format!("it has {} bytes, and {BODY_MAX} is the limit", body.len())));
    }
    // The error repeats parts of the body.
    let others: Vec<Other<'_>> = serde_json::from_slice(body).map_err(|error| bad(quoted(&error.to_string())))?;
    if others.len() >= ROWS_MAX {
        return Err(bad(format!("it names {}, and {} is the limit", others.len(), ROWS_MAX - 1)));
    }
    Ok(others)
}

/// Returns the claim that a message is about: headers `jobId` and `version`.
pub(super) fn fence(fields: Fields<'_>) -> Result<Fence, Refusal> {
    let id = fields.filled("jobId")?.ok_or_else(|| Refusal::new("missing-id", "header jobId is missing"))?;
    let version =
        fields.number("version")?.ok_or_else(|| Refusal::new("missing-version", "header version is missing"))?;
    Ok(Fence::new(job_id(&id)?, version))
}

pub(super) fn job_id(text: &str) -> Result<JobId, Refusal> {
    text.trim().parse().map_err(|_| Refusal::new("bad-id", format!("{} is not a job id (a UUID)", quoted(text))))
}
