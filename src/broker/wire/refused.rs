//! Messages that can't be used, on their way to the queues of rejected messages: as they came, with the reason in headers.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};

use super::delivery::PERSISTENT;
use super::headers::{Headers, short};
use super::{Incoming, Names, Outgoing, Refusal};

/// The longest explanation in a header, in bytes.
const TEXT_MAX: usize = 1024;

/// Makes the message for the queue of refused submissions: the submission as it came, with the reason in headers.
pub(crate) fn rejected(names: &Names, message: Incoming, why: &Refusal) -> Outgoing {
    passed_on(String::new(), names.rejected(), message, why)
}

/// Does the same for the queue of refused reports.
pub(crate) fn rejected_report(names: &Names, message: Incoming, why: &Refusal) -> Outgoing {
    passed_on(String::new(), names.rejected_reports(), message, why)
}

/// Does the same for any other message that can't be used.
pub(crate) fn dead(names: &Names, message: Incoming, why: &Refusal) -> Outgoing {
    passed_on(names.dead(), names.dead(), message, why)
}

/// Makes the message that puts a rejected one back into this queue: as it came first, without what was added to it since.
pub(crate) fn again(queue: String, came: &BasicProperties, body: Vec<u8>) -> Outgoing {
    let headers = Headers::original(came.headers().as_ref());
    let mut properties = properties(came);
    if let Some(expiration) = expiration(came) {
        properties = properties.with_expiration(expiration);
    }
    Outgoing {
        exchange: String::new(),
        routing_key: queue,
        mandatory: true,
        properties: properties.with_headers(headers.table()),
        body,
    }
}

/// Returns the time to live that jobwright or the broker removed so that the message stays.
fn expiration(came: &BasicProperties) -> Option<ShortString> {
    let headers = came.headers().as_ref()?.inner();
    let text = match headers.get("jobwright-expiration") {
        Some(ours) => ours,
        None => death(came)?.inner().get("original-expiration")?,
    };
    match text {
        AMQPValue::LongString(text) => short(std::str::from_utf8(text.as_bytes()).ok()?),
        _ => None,
    }
}

/// Returns what the broker wrote when it last moved the message here.
pub(crate) fn death(came: &BasicProperties) -> Option<&FieldTable> {
    let AMQPValue::FieldArray(deaths) = came.headers().as_ref()?.inner().get("x-death")? else { return None };
    match deaths.as_slice().first()? {
        AMQPValue::FieldTable(death) => Some(death),
        _ => None,
    }
}

fn passed_on(exchange: String, routing_key: String, message: Incoming, why: &Refusal) -> Outgoing {
    let came = &message.properties;
    let mut headers = Headers::copied(came.headers().as_ref())
        .text("jobwright-reason", why.reason)
        .text("jobwright-error", cut(&why.text));
    // It must stay until an operator has read it, so it does not expire.
    if let Some(expiration) = came.expiration() {
        headers = headers.text("jobwright-expiration", expiration.as_str());
    }
    // The broker accepts only the name of the connection's own user here, and closes the channel otherwise.
    if let Some(user) = came.user_id() {
        headers = headers.text("jobwright-user-id", user.as_str());
    }
    Outgoing {
        exchange,
        routing_key,
        mandatory: true,
        properties: properties(came).with_headers(headers.table()),
        body: message.body,
    }
}

/// Returns the properties that can be passed on, without headers.
fn properties(came: &BasicProperties) -> BasicProperties {
    let mut properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
    if let Some(value) = came.content_type() {
        properties = properties.with_content_type(value.clone());
    }
    if let Some(value) = came.content_encoding() {
        properties = properties.with_content_encoding(value.clone());
    }
    if let Some(value) = came.priority() {
        properties = properties.with_priority(*value);
    }
    if let Some(value) = came.correlation_id() {
        properties = properties.with_correlation_id(value.clone());
    }
    if let Some(value) = came.reply_to() {
        properties = properties.with_reply_to(value.clone());
    }
    if let Some(value) = came.message_id() {
        properties = properties.with_message_id(value.clone());
    }
    if let Some(value) = came.timestamp() {
        properties = properties.with_timestamp(*value);
    }
    if let Some(value) = came.kind() {
        properties = properties.with_type(value.clone());
    }
    if let Some(value) = came.app_id() {
        properties = properties.with_app_id(value.clone());
    }
    properties
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
