//! Reports of external workers.

use std::time::Duration;

use super::delivery::{fence, job_id};
use super::fields::{Fields, REPORT_TOKEN, bad, duration, quoted};
use super::{ExternalReport, Incoming, Refusal, body};
use crate::job::{Fence, LONGEST_LEASE, Limits, NewJob, Payload, ReportKey, RetryAdvice};

const BAD_TOKEN: &str = "bad-token";
/// The longest delay before another attempt.
const RETRY_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Reads the report of an external worker.
///
/// With a key, the report must have the token that its job came with. `None` accepts it from any sender that knows job and version.
pub(crate) fn report(message: &Incoming, limits: Limits, key: Option<&ReportKey>) -> Result<ExternalReport, Refusal> {
    let fields = Fields { properties: &message.properties };
    let (fence, token) = which(fields)?;
    if let Some(key) = key {
        was_handed_out(key, fence, token)?;
    }
    let status = match fields.filled("status")? {
        Some(status) => Some(status),
        None => fields.properties.kind().as_ref().map(|kind| kind.as_str().to_owned()),
    };
    match status.as_deref() {
        Some("done") => Ok(ExternalReport::Done { fence, result: result(fields, &message.body, limits)? }),
        Some("failed") => Ok(ExternalReport::Failed {
            fence,
            error: fields.filled("error")?.unwrap_or_else(|| "the external worker gave no reason".to_owned()),
            detail: fields.filled("detail")?,
            advice: advice(fields)?,
        }),
        Some("extend") => Ok(ExternalReport::Extend { fence, lease: lease(fields)? }),
        Some(other) => {
            Err(Refusal::new("bad-status", format!("status is {}; use done, failed or extend", quoted(other))))
        }
        None => Err(Refusal::new("bad-status", "header status is missing; use done, failed or extend")),
    }
}

/// Reads headers `jobId`, `version` and `reportToken`, or for clients that can't set headers, `correlation_id` as
/// `jobId:version:reportToken`.
fn which(fields: Fields<'_>) -> Result<(Fence, Option<String>), Refusal> {
    if !fields.has("jobId")
        && let Some(correlation) = fields.properties.correlation_id()
        && let Some(named) = named(correlation.as_str())
    {
        return Ok(named);
    }
    Ok((fence(fields)?, fields.filled(REPORT_TOKEN)?))
}

fn named(correlation: &str) -> Option<(Fence, Option<String>)> {
    let of = |text: &str| {
        let (id, version) = text.rsplit_once(':')?;
        Some(Fence::new(job_id(id).ok()?, version.parse().ok()?))
    };
    if let Some(fence) = of(correlation) {
        return Some((fence, None));
    }
    let (rest, token) = correlation.rsplit_once(':')?;
    Some((of(rest)?, Some(token.to_owned())))
}

fn was_handed_out(key: &ReportKey, fence: Fence, token: Option<String>) -> Result<(), Refusal> {
    match token {
        Some(token) if key.fits(fence, &token) => Ok(()),
        Some(_) => Err(Refusal::new(
            BAD_TOKEN,
            "header reportToken is not the one of this hand-out: send jobId, version and reportToken back as they came with the job",
        )),
        None => Err(Refusal::new(BAD_TOKEN, "header reportToken is missing: send it back as it came with the job")),
    }
}

/// Reads the body, if there is one. It is checked like a payload, because it is stored as one on its way to the client that asked for it.
fn result(fields: Fields<'_>, body: &[u8], limits: Limits) -> Result<Option<Payload>, Refusal> {
    if body.is_empty() {
        return Ok(None);
    }
    let payload = body::payload(fields, body, limits)?;
    let json = matches!(payload, Payload::Json(_));
    match NewJob::new("result", payload).validate(limits) {
        Ok(message) => Ok(Some(message.payload)),
        Err(error) => Err(Refusal::new(if json { "bad-json" } else { "bad-content-type" }, error.to_string())),
    }
}

fn advice(fields: Fields<'_>) -> Result<RetryAdvice, Refusal> {
    let after = limited(fields, "retryAfter", RETRY_MAX)?;
    match (fields.filled("retry")?.as_deref(), after) {
        (Some("never"), None) => Ok(RetryAdvice::Never),
        (Some("policy") | None, None) => Ok(RetryAdvice::ByPolicy),
        (Some("policy") | None, Some(delay)) => Ok(RetryAdvice::NotBefore(delay)),
        (Some("after"), Some(delay)) => Ok(RetryAdvice::After(delay)),
        (Some("after"), None) => Err(bad("header retry is \"after\", and retryAfter is missing")),
        (Some("never"), Some(_)) => Err(bad("retryAfter is set, and header retry is \"never\"")),
        (Some(other), _) => Err(bad(format!("header retry is {}; use policy, never or after", quoted(other)))),
    }
}

fn lease(fields: Fields<'_>) -> Result<Option<Duration>, Refusal> {
    match limited(fields, "lease", LONGEST_LEASE)? {
        Some(Duration::ZERO) => Err(bad("header lease is 0; use at least 1 ms, or leave it out")),
        lease => Ok(lease),
    }
}

fn limited(fields: Fields<'_>, name: &str, most: Duration) -> Result<Option<Duration>, Refusal> {
    let Some(text) = fields.filled(name)? else { return Ok(None) };
    let value = duration(&text).map_err(|why| bad(format!("header {name}: {why}")))?;
    if value > most {
        return Err(bad(format!("header {name} is {}; the limit is {} days", quoted(&text), most.as_secs() / 86_400)));
    }
    Ok(Some(value))
}
