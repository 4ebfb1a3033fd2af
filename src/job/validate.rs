//! The checks of `send`: an invalid job is refused with a reason, and never reaches (and aborts) a transaction.

use std::time::Duration;

use jiff::Timestamp;

use super::limits::{DUE_MAX, HEADERS_MAX, KEY_MAX, Limits};
use super::names::{check_name, check_text};
use super::reply::check_reply_to;
use super::{Due, JobMessage, JobOptions, NewJob, Payload, REPLY_QUEUE, REPLY_TO, RetryPolicy, numbers};
use crate::error::{Error, Result};

/// Longest media type in bytes (RFC 6838 allows 127 for each half).
const CONTENT_TYPE_MAX: usize = 255;
const HEADER_VALUE_MAX: usize = 4096;
const ATTEMPTS_MAX: u32 = 1_000_000_000;

impl NewJob {
    /// Checks everything that can be checked before the database sees it.
    pub(crate) fn validate(self, limits: Limits) -> Result<JobMessage> {
        limits.check(&self)?;
        let unique = self.unique.as_ref().map(|unique| unique.options(&self, DUE_MAX)).transpose()?;
        self.into_message(unique).map_err(Error::invalid)
    }
}

impl Limits {
    fn check(self, job: &NewJob) -> Result<()> {
        check_name("kind", &job.kind)?;
        check_name("queue", &job.queue)?;
        if job.priority == i16::MIN {
            return Err(Error::invalid("the priority is below -32767; use -32767 to 32767"));
        }
        if job.max_attempts == 0 || job.max_attempts > ATTEMPTS_MAX {
            return Err(Error::invalid(format!("max_attempts is {}; use 1 to {ATTEMPTS_MAX}", job.max_attempts)));
        }
        check_due(job.due)?;
        if job.headers.len() > HEADERS_MAX {
            return Err(Error::invalid(format!(
                "the job has {} headers; {HEADERS_MAX} is the limit",
                job.headers.len()
            )));
        }
        for (name, value) in &job.headers {
            check_name("header name", name)?;
            if value.contains('\0') {
                return Err(Error::invalid(format!("the value of header {name:?} contains a NUL byte; remove it")));
            }
            if value.len() > HEADER_VALUE_MAX {
                return Err(Error::invalid(format!(
                    "the value of header {name:?} has {} bytes; {HEADER_VALUE_MAX} is the limit, move it into the payload",
                    value.len()
                )));
            }
        }
        // The address of a reply was accepted with its job. Whether the reply can be delivered there is found out when it is published.
        if job.queue != REPLY_QUEUE
            && let Some(queue) = job.headers.get(REPLY_TO)
        {
            check_reply_to(queue, self.direct_reply)?;
        }
        check_options(job)?;
        match &job.payload {
            Ok(payload) => self.check_payload(payload),
            Err(why) => Err(Error::invalid(why.clone())),
        }
    }

    /// Checks a JSON text that is to be a payload.
    pub(crate) fn json(self, text: &str) -> Result<Payload> {
        let payload = Payload::json_text(text)?;
        self.check_payload(&payload).map(|()| payload)
    }

    fn check_payload(self, payload: &Payload) -> Result<()> {
        let size = payload.as_bytes().len();
        if size > self.payload {
            return Err(Error::invalid(format!(
                "the payload has {size} bytes; {} is the limit (`database.max_payload`): store it elsewhere and send a reference",
                self.payload
            )));
        }
        match payload {
            Payload::Json(raw) if has_escaped_nul(raw.get()) => Err(Error::invalid(
                "a string in the payload contains a NUL character (\\u0000), which PostgreSQL can't store; remove it or send bytes",
            )),
            Payload::Json(raw) => numbers::check(raw.get(), self.payload),
            Payload::Bytes { content_type, .. } => {
                if content_type.is_empty()
                    || content_type.len() > CONTENT_TYPE_MAX
                    || content_type.chars().any(char::is_control)
                {
                    return Err(Error::invalid(format!(
                        "{content_type:?} is not a content type; use a media type such as `text/plain` of at most {CONTENT_TYPE_MAX} bytes"
                    )));
                }
                Ok(())
            }
        }
    }
}

fn check_options(job: &NewJob) -> Result<()> {
    let JobOptions { group, tenant, limit_key, ttl, retry, .. } = &job.options;
    for (what, key) in [("exclusive group", group), ("tenant", tenant), ("limit key", limit_key)] {
        if let Some(key) = key {
            check_text(what, key, KEY_MAX)?;
        }
    }
    // It is stored as a text, and options that can't be read keep a job from running.
    if let Some(Err(why)) = retry.as_ref().map(|policy| policy.to_string().parse::<RetryPolicy>()) {
        return Err(Error::invalid(format!("the delays between its attempts can't be stored: {why}")).with_source(why));
    }
    let Some(ttl) = *ttl else { return Ok(()) };
    if ttl < Duration::from_millis(1) || ttl > DUE_MAX {
        return Err(Error::invalid(format!("the time to live is {ttl:?}; use 1 ms to 100 years")));
    }
    match job.due {
        Due::In(delay) if delay >= ttl => Err(Error::invalid(format!(
            "the job would never run: it is delayed by {delay:?} and lives for {ttl:?}; make the time to live longer than the delay"
        ))),
        _ => Ok(()),
    }
}

fn check_due(due: Due) -> Result<()> {
    let far = "a job can't be due more than 100 years ahead";
    match due {
        Due::In(delay) if delay > DUE_MAX => Err(Error::invalid(format!("the delay is {delay:?}; {far}"))),
        // Only to refuse nonsense: the database decides whether it is due.
        Due::At(at) if at < Timestamp::UNIX_EPOCH => {
            Err(Error::invalid(format!("the due date {at} is before 1970; use a date in the future or leave it out")))
        }
        Due::At(at) if Timestamp::now().saturating_add(DUE_MAX).is_ok_and(|latest| at > latest) => {
            Err(Error::invalid(format!("the due date is {at}; {far}")))
        }
        Due::Now | Due::In(_) | Due::At(_) => Ok(()),
    }
}

/// Whether a JSON text contains an escaped NUL: `\u0000` whose backslash is not escaped itself.
fn has_escaped_nul(json: &str) -> bool {
    // Goes from backslash to backslash: most payloads have none, and searching for one byte is faster than for six.
    let mut rest = json;
    while let Some((_, escape)) = rest.split_once('\\') {
        if escape.starts_with("u0000") {
            return true;
        }
        // In valid JSON an escaped character is ASCII.
        rest = escape.get(1..).unwrap_or_default();
    }
    false
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(job: NewJob) -> String {
        let error = job.validate(Limits { payload: 100, ..Limits::default() }).expect_err("should be refused");
        assert!(error.is_invalid());
        error.to_string()
    }

    fn job() -> NewJob {
        NewJob::json("kind", &json!({ "a": 1 }))
    }

    #[test]
    fn good_jobs_pass() {
        for good in [
            job(),
            job().queue("a/b.c").priority(-32_767).max_attempts(1).delay(Duration::ZERO),
            job().at(Timestamp::now()).header("tenant", ""),
            job().reply_to("amq.gen-7", "c"),
            NewJob::new("kind", Payload::bytes("application/octet-stream", vec![0; 100])),
            NewJob::json("kind", &json!({ "path": "C:\\u0000" })),
        ] {
            good.validate(Limits { payload: 100, ..Limits::default() }).unwrap();
        }
    }

    #[test]
    fn bad_jobs_are_refused_with_the_reason() {
        let cases = [
            (NewJob::json("", &1), "kind is empty"),
            (NewJob::json("k".repeat(101), &1), "101 bytes"),
            (NewJob::json("a\0b", &1), "control character"),
            (NewJob::json(" a", &1), "white space"),
            (job().queue(""), "queue is empty"),
            (job().priority(i16::MIN), "-32767"),
            (job().max_attempts(0), "max_attempts is 0"),
            (job().max_attempts(u32::MAX), "max_attempts"),
            (job().delay(Duration::MAX), "100 years"),
            (job().retry(RetryPolicy::Fixed(Duration::MAX)), "not a duration"),
            (job().retry(RetryPolicy::Intervals(Vec::new())), "not a duration"),
            (
                job().retry(RetryPolicy::Exponential { base: Duration::ZERO, factor: 0.5, max: Duration::ZERO }),
                "at least 1",
            ),
            (job().at(Timestamp::MAX), "100 years"),
            (job().at(Timestamp::MIN), "before 1970"),
            (job().header("h", "a\0"), "NUL"),
            (job().header("", "a"), "header name is empty"),
            (job().reply_to("amq.direct", "c"), "keeps for itself"),
            (job().header("h", "a".repeat(5000)), "5000 bytes"),
            (NewJob::json("kind", &"a".repeat(200)), "202 bytes"),
            (NewJob::json("kind", &"a\0b"), "NUL"),
            (NewJob::json("kind", &json!({ "\\\0": 1 })), "NUL"),
            (NewJob::new("kind", Payload::bytes("", b"x")), "content type"),
            (NewJob::json("kind", &std::collections::HashMap::from([((1, 2), 3)])), "JSON"),
        ];
        for (job, why) in cases {
            let text = refused(job);
            assert!(text.contains(why), "{text:?} does not say {why:?}");
        }
        let many = (0..65).fold(job(), |job, n| job.header(format!("h{n}"), "v"));
        assert!(refused(many).contains("65 headers"));
    }

    #[test]
    fn json_text_is_checked_like_the_database_would() {
        for bad in ["", "{", "1e999", "\"\\ud800\"", "1 2"] {
            assert!(Payload::json_text(bad).is_err(), "{bad}");
        }
        assert_eq!(Payload::json_text("[1, 2]").unwrap().as_bytes(), b"[1, 2]");
    }
}
