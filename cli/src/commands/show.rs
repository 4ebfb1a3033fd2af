//! `jobwright jobs show`.

use std::fmt::Write as _;
use std::time::Duration;

use jobwright::JobResult;
use jobwright::admin::Admin;
use jobwright::admin::{JobDetail, JobProgress, JobState, Reason};
use jobwright::{JobId, Payload};
use serde_json::{Value, json as value};

use super::connect_database;
use super::slow_notice::with_slow_notice;
use crate::args::ShowArgs;
use crate::config::Settings;
use crate::failure::Failure;
use crate::output::{Format, counted, harmless, json, or_dash, print, time};

pub(crate) async fn run(settings: &Settings, args: &ShowArgs) -> Result<(), Failure> {
    let messages = connect_database(settings).await?;
    let admin = messages.admin();
    let job = with_slow_notice(settings, admin.show(args.id)).await?;
    // Read after the job, because it is committed together with the job's end.
    let result = admin.result(args.id).await?;
    let format = args.output.output;
    let Some(job) = job else {
        return match (result, format) {
            (Some(result), Format::Json) => json(&value!({
                "id": result.id, "state": "done", "kind": result.kind, "result": left(&result),
            })),
            (Some(result), Format::Table) => print(done(&result)),
            (None, _) => Err(unknown(&admin, args.id)),
        };
    };
    let progress = admin.progress(args.id).await?;
    // A role may see jobs, and not all that the reasons are made of.
    let reasons = match admin.why(args.id).await {
        Ok(why) => why.map(|why| why.reasons).unwrap_or_default(),
        Err(error) => {
            tracing::warn!(%error, "could not find out why the job does not run");
            Vec::new()
        }
    };
    match format {
        Format::Json => {
            let mut document = document(&job);
            if let Value::Object(fields) = &mut document {
                fields.insert("progress".to_owned(), value!(progress));
                fields.insert("why".to_owned(), value!(reasons));
                fields.insert("result".to_owned(), value!(result.as_ref().map(left)));
            }
            json(&document)
        }
        Format::Table => print(sheet(&job, &reasons, progress.as_ref(), result.as_ref())),
    }
}

/// The error for an id that no job has.
pub(super) fn unknown(admin: &Admin, id: JobId) -> Failure {
    Failure::Failed(format!(
        "no job with this id: it is done (finished jobs are not kept), was cancelled or deleted, or never existed ({id} in {}); \
         `jobwright jobs history {id}` may know more",
        admin.describe()
    ))
}

/// Returns what a job left when it was done.
fn left(result: &JobResult) -> Value {
    value!({ "payload": content(&result.payload), "at": result.created_at, "expires_at": result.expires_at })
}

/// Formats all that is known of a job that is done.
fn done(result: &JobResult) -> String {
    let mut text = String::new();
    for (name, value) in [("id", result.id.to_string()), ("state", "done".to_owned()), ("kind", result.kind.clone())] {
        // Writing to a string can't fail.
        let _ = writeln!(text, "{name:<11} {value}");
    }
    write_result(&mut text, result);
    harmless(&text)
}

fn write_result(text: &mut String, result: &JobResult) {
    let until = time(result.expires_at);
    let _ = writeln!(text, "\nresult of {}, kept until {until}:", time(result.created_at));
    write_payload(text, &result.payload);
}

fn write_payload(text: &mut String, payload: &Payload) {
    match payload {
        Payload::Json(raw) => write_json(text, raw.get()),
        bytes @ Payload::Bytes { .. } => text.push_str(bytes.as_str().unwrap_or("(not text)")),
    }
    text.push('\n');
}

fn write_json(text: &mut String, json: &str) {
    let pretty = serde_json::from_str::<Value>(json).and_then(|json| serde_json::to_string_pretty(&json));
    text.push_str(pretty.as_deref().unwrap_or(json));
}

fn content(payload: &Payload) -> Value {
    match payload {
        Payload::Json(raw) => value!({ "content_type": "application/json", "json": raw }),
        bytes @ Payload::Bytes { .. } => match bytes.as_str() {
            Some(text) => value!({ "content_type": bytes.content_type(), "text": text }),
            None => value!({ "content_type": bytes.content_type(), "size": bytes.as_bytes().len() }),
        },
    }
}

fn document(job: &JobDetail) -> Value {
    let mut document = serde_json::to_value(&job.summary).unwrap_or_default();
    let payload = content(&job.payload);
    let dead = job.dead.as_ref().map(|(at, reason)| value!({ "at": at, "reason": reason }));
    if let Value::Object(fields) = &mut document {
        fields.insert("version".to_owned(), job.version.into());
        fields.insert("options".to_owned(), value!(job.options));
        fields.insert("errors".to_owned(), value!(job.errors));
        fields.insert("headers".to_owned(), value!(job.headers));
        fields.insert("payload".to_owned(), payload);
        fields.insert("dead".to_owned(), value!(dead));
    }
    document
}

fn sheet(job: &JobDetail, reasons: &[Reason], progress: Option<&JobProgress>, result: Option<&JobResult>) -> String {
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
    ];
    fields.extend(asked(job));
    if let Some((at, reason)) = &job.dead {
        fields.push(("dead since", time(*at)));
        fields.push(("reason", reason.clone()));
    }
    if let Some(JobProgress { percent, note, at, .. }) = progress {
        let percent = percent.map(|percent| format!("{percent} % "));
        let note = note.as_ref().map(|note| format!("{note:?} "));
        let said = [percent, note].into_iter().flatten().collect::<String>();
        fields.push(("progress", format!("{said}at {}", time(*at))));
    }
    // Where another job is, its other fields say.
    if !matches!(summary.state, JobState::Running | JobState::External | JobState::Dead) {
        fields.extend(reasons.iter().map(|reason| ("why", reason.to_string())));
        fields.extend(reasons.iter().filter_map(|reason| Some(("→", reason.remedy(summary.id)?))));
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
    let _ = writeln!(text, "\npayload ({content_type}, {}):", counted(job.payload.as_bytes().len() as u64, "byte"));
    write_payload(&mut text, &job.payload);
    if let Some(checkpoint) = progress.and_then(|progress| progress.checkpoint.as_ref()) {
        text.push_str("\ncheckpoint, from which the next attempt goes on:\n");
        write_json(&mut text, checkpoint.get());
        text.push('\n');
    }
    // The result of an earlier job with this id.
    if let Some(result) = result {
        write_result(&mut text, result);
    }
    harmless(&text)
}

/// Returns a time as people write it: `1h 30m`.
fn duration(time: Duration) -> String {
    jiff::SignedDuration::try_from(time).map_or_else(|_| format!("{time:?}"), |time| format!("{time:#}"))
}

/// Returns the job's options beyond its place in the queue; `-` where one is not set.
fn asked(job: &JobDetail) -> [(&'static str, String); 5] {
    let options = &job.options;
    let ordered = if options.ordered { " (ordered)" } else { "" };
    let expires = options.expires.and_then(|micros| jiff::Timestamp::from_microsecond(micros).ok());
    [
        ("group", or_dash(options.group.as_ref().map(|group| format!("{group}{ordered}")))),
        ("tenant", or_dash(options.tenant.as_ref())),
        ("limit key", or_dash(options.limit_key.as_ref())),
        ("lives for", or_dash(options.ttl.map(duration))),
        ("expires at", or_dash(expires.map(time))),
    ]
}
