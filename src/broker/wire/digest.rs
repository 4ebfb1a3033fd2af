//! The digest that decides whether two submissions under one id are the same.

use sha2::{Digest, Sha256};

use crate::job::{Due, JobMessage};

/// Headers that differ each time a client sends the same message again.
const CHANGING: [&str; 3] = ["traceparent", "tracestate", "baggage"];

/// Computes SHA-256 over everything that defines a job. This excludes when and how often it was sent, and its trace.
pub(super) fn digest(message: &JobMessage) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut field = |bytes: &[u8]| {
        // The length first: two fields must not run into each other.
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    field(b"jobwright submission 1");
    field(message.kind.as_bytes());
    field(message.queue.as_bytes());
    field(&message.priority.to_be_bytes());
    field(&message.max_attempts.to_be_bytes());
    match message.due {
        Due::Now => field(b"now"),
        Due::In(delay) => field(&delay.as_nanos().to_be_bytes()),
        Due::At(moment) => field(&moment.as_nanosecond().to_be_bytes()),
    }
    field(matches!(message.due, Due::At(_)).to_string().as_bytes());
    field(message.payload.content_type().as_bytes());
    field(message.payload.as_bytes());
    for (name, value) in &message.headers {
        if !CHANGING.contains(&name.as_str()) {
            field(name.as_bytes());
            field(value.as_bytes());
        }
    }
    // No header has such a name. A job without options keeps the digest it always had.
    if let Some(options) = message.options.to_json() {
        field(b"\0terms");
        field(options.as_bytes());
    }
    hash.finalize().into()
}
