//! Deliveries to executors of ours: pointers to rows. What the job carries stays in its row.

use lapin::BasicProperties;

use super::fields::Fields;
use super::headers::{Headers, short};
use super::{Incoming, Names, Outgoing, Refusal};
use crate::job::Fence;

/// Survives a restart of the broker.
pub(super) const PERSISTENT: u8 = 2;

/// A delivery of a row to an executor of ours: a pointer.
pub(crate) fn delivery(names: &Names, queue: &str, kind: &str, fence: Fence) -> Outgoing {
    let id = fence.id.to_string();
    let headers = Headers::default().text("jobId", &id).text("jobKind", kind).number("version", fence.version);
    let mut properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_message_id(id.into())
        .with_headers(headers.table());
    if let Some(kind) = short(kind) {
        properties = properties.with_type(kind);
    }
    Outgoing {
        exchange: String::new(),
        routing_key: names.deliveries(queue),
        mandatory: true,
        properties,
        body: Vec::new(),
    }
}

/// Which row a delivery is of, and the kind of the job.
pub(crate) fn read_delivery(message: &Incoming) -> Result<(Fence, String), Refusal> {
    let fields = Fields { properties: &message.properties };
    let fence = fence(fields)?;
    let kind = fields.filled("jobKind")?.ok_or_else(|| Refusal::new("missing-kind", "header jobKind is missing"))?;
    Ok((fence, kind))
}

/// Which claim a message is about: headers `jobId` and `version`.
pub(super) fn fence(fields: Fields<'_>) -> Result<Fence, Refusal> {
    let id = fields.filled("jobId")?.ok_or_else(|| Refusal::new("missing-id", "header jobId is missing"))?;
    let version =
        fields.number("version")?.ok_or_else(|| Refusal::new("missing-version", "header version is missing"))?;
    Ok(Fence::new(job_id(&id)?, version))
}

pub(super) fn job_id(text: &str) -> Result<crate::job::JobId, Refusal> {
    text.trim()
        .parse()
        .map_err(|_| Refusal::new("bad-id", format!("{} is not a job id (a UUID)", super::fields::quoted(text))))
}
