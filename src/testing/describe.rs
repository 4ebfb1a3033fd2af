//! Jobs in a run, described for people who read why a test failed.

use std::fmt::Write as _;

use crate::job::{Due, JobMessage, Payload};

/// Longest text of a payload.
const PAYLOAD: usize = 200;

/// `send-invoice in billing, in 5s, priority 3, tenant="acme": {"order":42}`
pub(super) fn message(message: &JobMessage) -> String {
    let mut text = format!("{} in {}", message.kind, message.queue);
    // Writing to a String can't fail.
    let _ = match message.due {
        Due::Now => Ok(()),
        Due::In(delay) => write!(text, ", in {delay:?}"),
        Due::At(at) => write!(text, ", at {at}"),
    };
    if message.priority != 0 {
        let _ = write!(text, ", priority {}", message.priority);
    }
    let options = &message.options;
    for (name, value) in [("group", &options.group), ("tenant", &options.tenant), ("limit key", &options.limit_key)] {
        if let Some(value) = value {
            let _ = write!(text, ", {name} {value:?}");
        }
    }
    for (name, value) in &message.headers {
        let _ = write!(text, ", {name}={value:?}");
    }
    let _ = write!(text, ": {}", payload(&message.payload));
    text
}

pub(super) fn payload(payload: &Payload) -> String {
    match payload.as_str() {
        Some(text) if text.len() <= PAYLOAD => text.to_owned(),
        Some(text) => crate::store::clip(text, PAYLOAD),
        None => format!("{} bytes of {}", payload.as_bytes().len(), payload.content_type()),
    }
}
