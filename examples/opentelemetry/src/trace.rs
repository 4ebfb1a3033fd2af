//! The trace of a job: from the span that sends it, in a header, to the span of each of its attempts.

use std::collections::{BTreeMap, HashMap};

use jobwright::{Job, JobError, Middleware, NewJob, Next, Outcome, RetryAdvice};
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::field::Empty;
use tracing::{Instrument, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// A send hook: gives a job the position of the span in which it is sent.
pub(crate) fn carry(job: NewJob) -> NewJob {
    let mut headers = HashMap::new();
    // Nothing, if no span is recorded here.
    TraceContextPropagator::new().inject_context(&Span::current().context(), &mut headers);
    headers.into_iter().filter(|(_, value)| !value.is_empty()).fold(job, |job, (name, value)| job.header(name, value))
}

/// Runs each attempt in a span, a child of the one in which the job was sent.
pub(crate) struct Traced;

impl Middleware for Traced {
    async fn around(&self, job: &Job, next: Next<'_>) -> Result<Outcome, JobError> {
        // The names with `messaging.` are those of OpenTelemetry's conventions, and those with `otel.` tell the layer about the span itself.
        let span = tracing::info_span!(
            "process",
            otel.name = format!("process {}", job.kind),
            otel.kind = "consumer",
            otel.status_code = Empty,
            otel.status_description = Empty,
            messaging.system = "jobwright",
            messaging.operation.type = "process",
            messaging.destination.name = job.queue,
            messaging.message.id = %job.id,
            jobwright.kind = job.kind,
            jobwright.queue = job.queue,
            jobwright.attempt = job.attempt,
            jobwright.outcome = Empty,
        );
        // Of a job without a trace it begins one. It fails if nothing is recorded, and then there is nothing to say.
        let _ = span.set_parent(sent_in(job));
        let ended = next.run().instrument(span.clone()).await;
        span.record("jobwright.outcome", outcome(job, &ended));
        if let Err(error) = &ended {
            span.record("otel.status_code", "ERROR");
            span.record("otel.status_description", error.message());
        }
        ended
    }
}

/// Returns the position in the trace at which a job was sent.
fn sent_in(job: &Job) -> Context {
    struct Headers<'a>(&'a BTreeMap<String, String>);

    impl Extractor for Headers<'_> {
        fn get(&self, key: &str) -> Option<&str> {
            self.0.get(key).map(String::as_str)
        }

        fn keys(&self) -> Vec<&str> {
            self.0.keys().map(String::as_str).collect()
        }
    }

    TraceContextPropagator::new().extract_with_context(&Context::new(), &Headers(&job.headers))
}

/// Says how an attempt ended, in the words of the metrics.
fn outcome(job: &Job, ended: &Result<Outcome, JobError>) -> &'static str {
    let failed = if job.attempt < job.max_attempts { "retry" } else { "dead" };
    match ended {
        Ok(Outcome::Done) => "done",
        Ok(Outcome::Snooze(_)) => "snooze",
        Ok(Outcome::Cancel(_)) => "cancel",
        Ok(Outcome::Dead(_)) => "dead",
        Ok(_) => failed,
        Err(error) => match error.advice() {
            RetryAdvice::Never => "dead",
            RetryAdvice::NotHere => "released",
            // The handler runs again at once, within the same attempt.
            RetryAdvice::Conflict => "conflict",
            _ => failed,
        },
    }
}
