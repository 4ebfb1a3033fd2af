//! The options of a job, from the command line of `jobwright send`.

use jobwright::headers::{CORRELATION_ID, EVENT_QUEUE, REPLY_TO, TRACEPARENT, TRACESTATE};
use jobwright::{NewJob, TraceContext, Unique};

use crate::args::SendArgs;

/// Applies the options of the command line to a job.
pub(super) fn with_options(job: NewJob, args: &SendArgs) -> NewJob {
    let options = &args.options;
    let queue = if args.event { EVENT_QUEUE } else { &options.queue };
    let mut job = job.queue(queue).priority(options.priority).max_attempts(options.max_attempts);
    if let Some(delay) = options.delay {
        job = job.delay(delay);
    }
    if let Some(at) = options.at {
        job = job.at(at);
    }
    job = match &options.group {
        Some(group) if options.ordered => job.ordered(group),
        Some(group) => job.exclusive(group),
        None => job,
    };
    if let Some(tenant) = &options.tenant {
        job = job.tenant(tenant);
    }
    if let Some(key) = &options.limit_key {
        job = job.limit_key(key);
    }
    if let Some(ttl) = options.ttl {
        job = job.ttl(ttl);
    }
    if let Some(key) = &options.unique {
        job = job.unique(Unique::key(key));
    }
    if let Some(queue) = &options.reply_to {
        job = job.header(REPLY_TO, queue);
    }
    if let Some(id) = &options.correlation_id {
        job = job.header(CORRELATION_ID, id);
    }
    // The trace of the handler that calls this program, if any; the command line takes precedence.
    if let Some(trace) = variable("JOBWRIGHT_TRACEPARENT").and_then(|text| text.parse::<TraceContext>().ok())
        && options.header.iter().all(|(name, _)| name != TRACEPARENT)
    {
        job = job.trace(trace);
        if let Some(state) = variable("JOBWRIGHT_TRACESTATE") {
            job = job.header(TRACESTATE, state);
        }
    }
    options.header.iter().fold(job, |job, (name, value)| job.header(name, value))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
