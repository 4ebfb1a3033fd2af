//! Jobs that external producers submit, from any client in any language. What is not understood is refused. It is never guessed at or
//! silently dropped, except for headers that belong to the broker or to JMS.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid, Variant, Version};

use super::fields::{Fields, REPORT_TOKEN, as_text, bad, duration, quoted};
use super::headers::is_reserved;
use super::{Incoming, Refusal, body, digest, priority};
use crate::config::{Asked, SubmitRules};
use crate::job::{
    CORRELATION_ID, Due, EVENT_QUEUE, JobId, JobOptions, Limits, NewJob, Payload, REPLY_QUEUE, REPLY_TO, SENT_BY,
    Submission, Unique,
};

/// The longest id, in bytes.
const ID_MAX: usize = 255;
/// Headers that describe the job, or described the job they were copied from. They are not kept as headers.
const CONSUMED: [&str; 17] = [
    "jobKind",
    "jobPriority",
    "queue",
    "delay",
    "dueAt",
    "maxAttempts",
    "groupId",
    "ordered",
    "limitKey",
    "uniqueKey",
    "submissionId",
    "jobId",
    "attempt",
    "version",
    REPORT_TOKEN,
    "headersLeftOut",
    SENT_BY,
];
/// Values that JMS clients put into `JMSType` when they mean the class of the message and not its topic.
const JMS_CLASSES: [&str; 6] =
    ["Message", "TextMessage", "BytesMessage", "ObjectMessage", "MapMessage", "StreamMessage"];

/// Reads a job that an external producer submits.
pub(crate) fn submission(message: &Incoming, limits: Limits) -> Result<Submission, Refusal> {
    let fields = Fields { properties: &message.properties };
    let (id, name) = id(fields)?;
    let kind = kind(fields)?;
    let payload = body::payload(fields, &message.body, limits)?;
    let mut job = NewJob::new(kind, payload).id(id).priority(job_priority(fields)?);
    if let Some(queue) = fields.filled("queue")? {
        job = job.queue(queue);
    }
    if let Some(attempts) = fields.number("maxAttempts")? {
        job = job.max_attempts(
            u32::try_from(attempts).map_err(|_| bad(format!("header maxAttempts is {attempts}; use 1 or more")))?,
        );
    }
    job = options(fields, due(fields, job)?)?;
    for (name, value) in own_headers(fields, name)? {
        job = job.header(name, value);
    }
    let mut submission = checked(job, limits)?;
    // Not part of the digest: the same message is the same job, whoever sends it again.
    if let Some(user) = message.properties.user_id().as_ref().filter(|user| !user.as_str().is_empty()) {
        // A broker lets a user with the tag `impersonator` write anything here, and no database stores a NUL byte.
        if user.as_str().contains('\0') {
            return Err(bad("property user_id contains a NUL byte; it has to be the user of the connection"));
        }
        submission.message.headers.insert(SENT_BY.to_owned(), user.to_string());
    }
    Ok(submission)
}

/// Refuses jobs that their sender may not submit. The broker has verified the sender. `came` is the message that the submission was read
/// from.
pub(crate) fn allowed(came: &Incoming, submission: &Submission, rules: Option<&SubmitRules>) -> Result<(), Refusal> {
    let (Some(rules), message) = (rules, &submission.message) else { return Ok(()) };
    let refused = |text| Err(Refusal::new("not-allowed", text));
    let Some(user) = message.headers.get(SENT_BY) else {
        return refused("the message does not name its user: set user_id to the user of the connection".to_owned());
    };
    let Some(rule) = rules.get(user) else {
        return refused(format!("the user {} may not submit: `[submit.rules]` does not list it", quoted(user)));
    };
    // The submission has only the key's hash.
    let unique_key = Fields { properties: &came.properties }.filled("uniqueKey")?;
    let delay = match message.due {
        Due::Now => Duration::ZERO,
        Due::In(delay) => delay,
        // The database's clock decides when the job runs. This one need not be exact.
        Due::At(moment) => moment.duration_since(Timestamp::now()).try_into().unwrap_or_default(),
    };
    let asked = Asked {
        kind: &message.kind,
        queue: &message.queue,
        tenant: message.options.tenant.as_deref(),
        group: message.options.group.as_deref(),
        limit_key: message.options.limit_key.as_deref(),
        unique_key: unique_key.as_deref(),
        priority: message.priority,
        delay,
    };
    rule.check(asked).or_else(|why| refused(format!("the user {} may not submit this: {why}", quoted(user))))
}

/// Returns the id of the job, and the producer's name for it if that is not a UUID.
fn id(fields: Fields<'_>) -> Result<(JobId, Option<String>), Refusal> {
    let property = fields.properties.message_id().as_ref().map(|id| id.as_str().to_owned());
    let given = match property.filter(|id| !id.is_empty()) {
        Some(id) => Some(id),
        None => match fields.filled("submissionId")? {
            Some(id) => Some(id),
            None => fields.filled("JMSMessageID")?,
        },
    };
    let given = given.ok_or_else(|| {
        Refusal::new("missing-id", "the message has no id: set message_id, so that sending it twice makes one job")
    })?;
    // JMS ids all start like this.
    let text = given.strip_prefix("ID:").unwrap_or(&given);
    if let Ok(id) = Uuid::parse_str(text) {
        return Ok((id.into(), None));
    }
    if text.is_empty() || given.len() > ID_MAX || given.contains('\0') {
        return Err(Refusal::new(
            "bad-id",
            format!("{} is not an id: use a UUID, or 1 to {ID_MAX} bytes of text", quoted(&given)),
        ));
    }
    Ok((named(text), Some(given)))
}

/// Returns the same id for the same text, always: a `UUIDv8` from its SHA-256.
fn named(text: &str) -> JobId {
    let hash = Sha256::new().chain_update(b"jobwright message id\0").chain_update(text).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    Builder::from_bytes(bytes).with_variant(Variant::RFC4122).with_version(Version::Custom).into_uuid().into()
}

fn kind(fields: Fields<'_>) -> Result<String, Refusal> {
    if let Some(kind) = fields.filled("jobKind")? {
        return Ok(kind);
    }
    if let Some(kind) = fields.properties.kind().as_ref().map(ShortString::as_str).filter(|kind| !kind.is_empty()) {
        return Ok(kind.to_owned());
    }
    if let Some(kind) = fields.filled("cloudEvents_type")? {
        return Ok(kind);
    }
    fields.filled("JMSType")?.filter(|kind| !JMS_CLASSES.contains(&kind.as_str())).ok_or_else(|| {
        Refusal::new("missing-kind", "the message names no kind of job: set header jobKind or property type")
    })
}

fn job_priority(fields: Fields<'_>) -> Result<i16, Refusal> {
    match fields.number("jobPriority")? {
        Some(value) => i16::try_from(value)
            .ok()
            .filter(|value| *value != i16::MIN)
            .ok_or_else(|| bad(format!("header jobPriority is {value}; use -32767 to 32767"))),
        None => Ok(priority::from_wire(*fields.properties.priority())),
    }
}

fn due(fields: Fields<'_>, job: NewJob) -> Result<NewJob, Refusal> {
    let bad = |text: String| Refusal::new("bad-due", text);
    match (fields.filled("delay")?, fields.moment("dueAt")?) {
        (Some(_), Some(_)) => Err(bad("both delay and dueAt are set; use one".to_owned())),
        (None, None) => Ok(job),
        (None, Some(moment)) => Ok(job.at(moment)),
        (Some(delay), None) => {
            duration(&delay).map(|delay| job.delay(delay)).map_err(|why| bad(format!("header delay: {why}")))
        }
    }
}

/// Reads the options of the job.
fn options(fields: Fields<'_>, mut job: NewJob) -> Result<NewJob, Refusal> {
    let group = match fields.filled("groupId")? {
        Some(group) => Some(group),
        None => fields.filled("JMSXGroupID")?,
    };
    let ordered = match fields.filled("ordered")?.as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => return Err(bad(format!("header ordered is {}; use true or false", quoted(other)))),
    };
    job = match group {
        Some(group) if ordered => job.ordered(group),
        Some(group) => job.exclusive(group),
        None if ordered => return Err(bad("header ordered is true, but there is no groupId to keep in order")),
        None => job,
    };
    // It is kept as a header too.
    if let Some(tenant) = fields.filled("tenant")? {
        job = job.tenant(tenant);
    }
    if let Some(key) = fields.filled("limitKey")? {
        job = job.limit_key(key);
    }
    if let Some(key) = fields.filled("uniqueKey")? {
        job = job.unique(Unique::key(key));
    }
    if let Some(expiration) = fields.properties.expiration() {
        let text = expiration.as_str();
        let millis = text.parse().map_err(|_| {
            Refusal::new("expiration", format!("expiration is {}; use whole milliseconds, from 1 on", quoted(text)))
        })?;
        job = job.ttl(Duration::from_millis(millis));
    }
    Ok(job)
}

fn own_headers(fields: Fields<'_>, name: Option<String>) -> Result<BTreeMap<String, String>, Refusal> {
    let mut kept = BTreeMap::new();
    let mut properties = vec![
        (CORRELATION_ID, fields.properties.correlation_id().as_ref()),
        (REPLY_TO, fields.properties.reply_to().as_ref()),
    ];
    properties.retain(|(_, value)| value.is_some_and(|value| !value.as_str().is_empty()));
    for (header, value) in fields.headers().into_iter().flat_map(FieldTable::inner) {
        let header = header.as_str();
        if matches!(value, AMQPValue::Void) || is_reserved(header) || CONSUMED.contains(&header) {
            continue;
        }
        kept.insert(header.to_owned(), as_text(header, value)?);
    }
    for (header, value) in properties {
        kept.insert(header.to_owned(), value.map(ShortString::to_string).unwrap_or_default());
    }
    // JMS's own name for it, used if no other header sets it.
    if !kept.contains_key(CORRELATION_ID)
        && let Some(value) = fields.filled("JMSCorrelationID")?
    {
        kept.insert(CORRELATION_ID.to_owned(), value);
    }
    if let Some(content_type) = special_json(fields) {
        kept.insert("contentType".to_owned(), content_type);
    }
    if let Some(name) = name {
        kept.insert("messageId".to_owned(), name);
    }
    if let Some(queue) = kept.get(REPLY_TO).filter(|queue| queue.len() > 255) {
        return Err(bad(format!("{REPLY_TO} has {} bytes; the name of a queue has at most 255", queue.len())));
    }
    Ok(kept)
}

/// Returns a special JSON type, such as `application/cloudevents+json`: the payload will say `application/json`.
fn special_json(fields: Fields<'_>) -> Option<String> {
    let content_type = fields.properties.content_type().as_ref()?.as_str().trim();
    let media = content_type.split(';').next()?.trim().to_ascii_lowercase();
    (media.ends_with("+json") && body::is_json(&media)).then(|| content_type.to_owned())
}

/// Checks what is checked for any sender's job. Each part is checked separately, so that the refusal gets its own word.
fn checked(job: NewJob, limits: Limits) -> Result<Submission, Refusal> {
    if [EVENT_QUEUE, REPLY_QUEUE].contains(&job.job_queue()) {
        return Err(Refusal::new(
            "bad-queue",
            format!("the queue {:?} is reserved for outgoing messages; use another", job.job_queue()),
        ));
    }
    let plain = || NewJob::new("kind", Payload::text(""));
    let refuse =
        |reason, part: NewJob| part.validate(limits).map(drop).map_err(|error| Refusal::new(reason, error.to_string()));
    refuse("bad-kind", NewJob::new(job.kind(), Payload::text("")))?;
    refuse("bad-queue", plain().queue(job.job_queue()))?;
    refuse("bad-due", NewJob { due: job.due, ..plain() })?;
    refuse(
        "expiration",
        NewJob { due: job.due, options: JobOptions { ttl: job.options.ttl, ..JobOptions::default() }, ..plain() },
    )?;
    refuse("bad-header", NewJob { options: JobOptions { ttl: None, ..job.options.clone() }, ..plain() })?;
    refuse("bad-header", NewJob { unique: job.unique.clone(), ..plain() })?;
    refuse("bad-header", NewJob { headers: job.headers.clone(), max_attempts: job.max_attempts, ..plain() })?;
    let json = matches!(job.payload, Ok(Payload::Json(_)));
    let message = job
        .validate(limits)
        .map_err(|error| Refusal::new(if json { "bad-json" } else { "bad-content-type" }, error.to_string()))?;
    let digest = digest::digest(&message);
    Ok(Submission { message, digest })
}
