//! What external workers report.

use std::time::Duration;

use super::delivery::{fence, job_id};
use super::fields::{Fields, bad, quoted};
use super::submission::duration;
use super::{ExternalReport, Incoming, Refusal, body};
use crate::job::{Fence, Limits, NewJob, Payload, RetryAdvice};
use crate::store::broker::LONGEST_LEASE;

/// The longest delay before another attempt.
const RETRY_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// What an external worker reports.
pub(crate) fn report(message: &Incoming, limits: Limits) -> Result<ExternalReport, Refusal> {
    let fields = Fields { properties: &message.properties };
    let fence = which(fields)?;
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

/// Headers `jobId` and `version`; for who can't set headers, `correlation_id` as `jobId:version`.
fn which(fields: Fields<'_>) -> Result<Fence, Refusal> {
    if !fields.has("jobId")
        && let Some((id, version)) =
            fields.properties.correlation_id().as_ref().and_then(|id| id.as_str().rsplit_once(':'))
        && let (Ok(id), Ok(version)) = (job_id(id), version.parse())
    {
        return Ok(Fence::new(id, version));
    }
    fence(fields)
}

/// The body, if there is one: checked like a payload, since it is stored as one on its way to who asked for it.
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
        (Some("after") | None, Some(delay)) => Ok(RetryAdvice::After(delay)),
        (Some("after"), None) => Err(bad("header retry is \"after\", and retryAfter is missing")),
        (Some("never" | "policy"), Some(_)) => Err(bad("retryAfter is set, and header retry is not \"after\"")),
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
        return Err(bad(format!("header {name} is {}; {} days are the most", quoted(&text), most.as_secs() / 86_400)));
    }
    Ok(Some(value))
}
