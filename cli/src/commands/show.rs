//! `jobwright jobs show`.

use std::fmt::Write as _;

use jobwright::Payload;
use jobwright::store::JobDetail;
use serde_json::{Value, json as value};

use super::connect_database;
use crate::args::ShowArgs;
use crate::config::Settings;
use crate::failure::Failure;
use crate::output::{Format, harmless, json, or_dash, print, time};

pub(crate) async fn run(settings: &Settings, args: &ShowArgs) -> Result<(), Failure> {
    let messages = connect_database(settings).await?;
    let Some(job) = messages.jobs().show(args.id).await? else {
        return Err(Failure::Failed(format!(
            "no job with this id: it is done (finished jobs are not kept), was cancelled or deleted, or never existed ({} in {})",
            args.id,
            messages.jobs().describe()
        )));
    };
    match args.output.output {
        Format::Json => json(&document(&job)),
        Format::Table => print(sheet(&job)),
    }
}

fn document(job: &JobDetail) -> Value {
    let mut document = serde_json::to_value(&job.summary).unwrap_or_default();
    let payload = match &job.payload {
        Payload::Json(raw) => value!({ "content_type": "application/json", "json": raw }),
        bytes @ Payload::Bytes { .. } => match bytes.as_str() {
            Some(text) => value!({ "content_type": bytes.content_type(), "text": text }),
            None => value!({ "content_type": bytes.content_type(), "size": bytes.as_bytes().len() }),
        },
    };
    let dead = job.dead.as_ref().map(|(at, reason)| value!({ "at": at, "reason": reason }));
    if let Value::Object(fields) = &mut document {
        fields.insert("version".to_owned(), job.version.into());
        fields.insert("terms".to_owned(), value!(job.terms));
        fields.insert("gate".to_owned(), value!(job.gate));
        fields.insert("errors".to_owned(), value!(job.errors));
        fields.insert("headers".to_owned(), value!(job.headers));
        fields.insert("payload".to_owned(), payload);
        fields.insert("dead".to_owned(), value!(dead));
    }
    document
}

fn sheet(job: &JobDetail) -> String {
    let summary = &job.summary;
    let mut fields = vec![
        ("id", summary.id.to_string()),
        ("state", summary.state.to_string()),
        ("kind", summary.kind.clone()),
        ("queue", summary.queue.clone()),
        ("priority", summary.priority.to_string()),
        ("attempt", format!("{} of {}", summary.attempt, summary.max_attempts)),
        ("created at", time(summary.created_at)),
        ("due at", or_dash(summary.due_at.map(time))),
        ("owner", or_dash(summary.owner.map(|node| format!("node {node}")))),
        ("claimed at", or_dash(summary.claimed_at.map(time))),
        ("seq", summary.seq.to_string()),
        ("version", job.version.to_string()),
    ];
    fields.extend(asked(job));
    if let Some((at, reason)) = &job.dead {
        fields.push(("dead since", time(*at)));
        fields.push(("reason", reason.clone()));
    }
    let mut text = String::new();
    // Writing to a string can't fail.
    for (name, value) in fields.iter().filter(|(_, value)| value != "-") {
        let _ = writeln!(text, "{name:<11} {value}");
    }
    for (name, value) in &job.headers {
        let _ = writeln!(text, "header      {name}={value}");
    }
    for error in &job.errors {
        let _ = writeln!(
            text,
            "\nattempt {} failed at {} on node {}:\n  {}",
            error.attempt,
            time(error.at),
            error.node,
            error.error
        );
        for line in error.detail.iter().flat_map(|detail| detail.lines()) {
            let _ = writeln!(text, "  | {line}");
        }
    }
    let content_type = job.payload.content_type();
    let _ = writeln!(text, "\npayload ({content_type}, {} bytes):", job.payload.as_bytes().len());
    match &job.payload {
        Payload::Json(raw) => {
            let pretty = serde_json::from_str::<Value>(raw.get()).and_then(|json| serde_json::to_string_pretty(&json));
            text.push_str(pretty.as_deref().unwrap_or(raw.get()));
        }
        bytes @ Payload::Bytes { .. } => text.push_str(bytes.as_str().unwrap_or("(not text)")),
    }
    text.push('\n');
    harmless(&text)
}

/// What it asks for beside a place in its queue; `-` where it does not.
fn asked(job: &JobDetail) -> [(&'static str, String); 6] {
    let terms = &job.terms;
    let ordered = if terms.ordered { " (ordered)" } else { "" };
    let expires = terms.expires.and_then(|micros| jiff::Timestamp::from_microsecond(micros).ok());
    [
        ("waits for", or_dash(job.gate.as_ref())),
        ("group", or_dash(terms.group.as_ref().map(|group| format!("{group}{ordered}")))),
        ("tenant", or_dash(terms.tenant.as_ref())),
        ("limit key", or_dash(terms.limit_key.as_ref())),
        ("lives for", or_dash(terms.ttl.map(|ttl| format!("{ttl:?}")))),
        ("expires at", or_dash(expires.map(time))),
    ]
}
