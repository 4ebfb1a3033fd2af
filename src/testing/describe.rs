//! Jobs in a run, described for people who read why a test failed.

use std::fmt::Write as _;
use std::time::Duration;

use crate::job::{DEFAULT_MAX_ATTEMPTS, Due, JobMessage, Payload, UniqueConflict, UniqueHold, UniqueOptions};

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
    if message.max_attempts != DEFAULT_MAX_ATTEMPTS {
        let _ = write!(text, ", {} attempts", message.max_attempts);
    }
    let options = &message.options;
    for (name, value) in [("group", &options.group), ("tenant", &options.tenant), ("limit key", &options.limit_key)] {
        if let Some(value) = value {
            let _ = write!(text, ", {name} {value:?}");
        }
    }
    if options.ordered {
        text.push_str(", in strict order");
    }
    if let Some(ttl) = options.ttl {
        let _ = write!(text, ", time to live {ttl:?}");
    }
    if let Some(policy) = &options.retry {
        let _ = write!(text, ", retry policy {policy}");
    }
    if let Some(unique) = &options.unique {
        let _ = write!(text, ", unique {}, else {}", held(unique), on_conflict(unique.conflict));
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

/// How long a job holds its unique key.
pub(super) fn held(unique: &UniqueOptions) -> String {
    match (unique.hold, unique.period) {
        (UniqueHold::Waiting, _) => "while it waits".to_owned(),
        (UniqueHold::Period, Some(period)) => format!("for {:?}", Duration::from_micros(period.unsigned_abs())),
        (UniqueHold::Done | UniqueHold::Period, _) => "until it is gone".to_owned(),
    }
}

/// The effect of a send if another job holds the unique key.
pub(super) const fn on_conflict(conflict: UniqueConflict) -> &'static str {
    match conflict {
        UniqueConflict::Keep => "keep the other job",
        UniqueConflict::Replace => "replace the other job",
        UniqueConflict::Reject => "fail the flush",
    }
}
