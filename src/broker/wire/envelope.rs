//! Messages that carry a whole job: for external workers, for listeners to events, and for clients that wait for a result.
//!
//! The body is only the payload, so any client can read it. Everything else is in properties and headers, in the forms that JMS clients,
//! Spring and plain AMQP clients expect. Jobs are taken by value, so that there is no second copy of a large payload.

use lapin::BasicProperties;

use super::delivery::PERSISTENT;
use super::fields::REPORT_TOKEN;
use super::headers::{Headers, short};
use super::reply_to::{ReplyRoute, address};
use super::{Names, Outgoing, Reply, priority};
use crate::config::BrokerConfig;
use crate::job::{CORRELATION_ID, Job, JobOptions, Payload, REPLY_TO, ReportKey, is_reserved_by_broker};

/// Makes the message with a whole job for an external worker.
pub(crate) fn external(names: &Names, job: Job, key: &ReportKey) -> Outgoing {
    let headers = Headers::default()
        .number("attempt", job.attempt.into())
        .number("maxAttempts", job.max_attempts.into())
        .number("version", job.version)
        .text(REPORT_TOKEN, &key.token(job.fence()))
        .text("queue", &job.queue);
    let mut properties = envelope(&job, &job.id.to_string(), headers);
    // The broker refuses one of its own names here and ends the channel. Rows from before such names were refused may have one.
    if let Some(queue) =
        job.headers.get(REPLY_TO).filter(|queue| !is_reserved_by_broker(queue)).and_then(|queue| short(queue))
    {
        properties = properties.with_reply_to(queue);
    }
    Outgoing {
        exchange: String::new(),
        routing_key: names.external(&job.queue),
        mandatory: true,
        properties,
        body: job.payload.into_bytes(),
    }
}

/// Makes the message of an event.
pub(crate) fn event(names: &Names, job: Job) -> Outgoing {
    Outgoing {
        exchange: names.events(),
        routing_key: names.event(&job.kind),
        // There may be no listener.
        mandatory: false,
        properties: envelope(&job, &job.id.to_string(), Headers::default()),
        body: job.payload.into_bytes(),
    }
}

/// Makes the message with a result for the client that asked for it, or returns why it can't be sent there.
///
/// The header `jobId` is that of the job whose result it is, if the row has a header of that name; else the row's own.
pub(crate) fn reply(names: &Names, config: &BrokerConfig, job: Job) -> Result<Reply, &'static str> {
    let (queue, way) = address(names, config, job.headers.get(REPLY_TO).map_or("", String::as_str))?;
    let about = job.headers.get("jobId").map_or_else(|| job.id.to_string(), Clone::clone);
    let message = Outgoing {
        exchange: String::new(),
        routing_key: queue.to_owned(),
        mandatory: way == ReplyRoute::Queue,
        properties: envelope(&job, &about, Headers::default()),
        body: job.payload.into_bytes(),
    };
    Ok(match way {
        ReplyRoute::Queue => Reply::Queue(message),
        ReplyRoute::Direct => Reply::Direct(message),
    })
}

/// Returns the properties that all of them have. `about` is the job id that readers see.
fn envelope(job: &Job, about: &str, headers: Headers) -> BasicProperties {
    let id = job.id.to_string();
    let headers = headers
        .text("jobKind", &job.kind)
        .text("jobId", about)
        // With exactly this value a JMS client makes a text message. The job's kind can't be sent here.
        .text("JMSType", "TextMessage")
        .text("JMSMessageID", &format!("ID:{id}"))
        // The property has seconds, but JMS clients read it as milliseconds. They prefer this header.
        .number("JMSTimestamp", job.created_at.as_millisecond());
    let headers = asked(headers, &job.options).own(&job.headers);
    let mut properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_priority(priority::to_wire(job.priority))
        .with_message_id(id.into())
        .with_app_id("jobwright".into())
        .with_headers(headers.table());
    if let Ok(seconds) = u64::try_from(job.created_at.as_second()) {
        properties = properties.with_timestamp(seconds);
    }
    if let Some(content_type) = short(job.payload.content_type()) {
        properties = properties.with_content_type(content_type);
    }
    if is_text(&job.payload) {
        properties = properties.with_content_encoding("utf-8".into());
    }
    if let Some(kind) = short(&job.kind) {
        properties = properties.with_type(kind);
    }
    if let Some(correlation) = job.headers.get(CORRELATION_ID).and_then(|text| short(text)) {
        properties = properties.with_correlation_id(correlation);
    }
    properties
}

/// Adds the job's options, under the names that submissions use. No `expiration`: a job that was handed out may be done, however late.
fn asked(headers: Headers, options: &JobOptions) -> Headers {
    let named = [("groupId", &options.group), ("tenant", &options.tenant), ("limitKey", &options.limit_key)];
    let headers = named.into_iter().fold(headers, |headers, (name, value)| match value {
        Some(value) => headers.text(name, value),
        None => headers,
    });
    if options.ordered { headers.text("ordered", "true") } else { headers }
}

/// Returns whether the payload is JSON, or a text that is valid UTF-8.
fn is_text(payload: &Payload) -> bool {
    match payload {
        Payload::Json(_) => true,
        Payload::Bytes { content_type, body } => {
            content_type.trim_start().get(..5).is_some_and(|start| start.eq_ignore_ascii_case("text/"))
                && std::str::from_utf8(body).is_ok()
        }
    }
}
