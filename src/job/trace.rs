use std::fmt;
use std::str::FromStr;

use super::{Job, NewJob};
use crate::error::Error;

/// Header of a job: the trace it belongs to, as in W3C Trace Context.
pub const TRACEPARENT: &str = "traceparent";
/// Header of a job: vendor data that tracing systems add to [`TRACEPARENT`]. Passed on unchanged.
pub const TRACESTATE: &str = "tracestate";

/// A position in a trace: W3C's `traceparent`.
///
/// ```
/// use jobwright::{NewJob, TraceContext};
///
/// let here: TraceContext = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse()?;
/// let job = NewJob::json("send-invoice", &42).trace(here);
/// assert_eq!(job.headers()["traceparent"], here.to_string());
/// # Ok::<(), jobwright::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace: u128,
    span: u64,
    flags: u8,
}

impl TraceContext {
    /// Starts a new trace that is to be recorded.
    pub fn root() -> Self {
        let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
        Self { trace: uuid::Uuid::new_v4().as_u128(), span: (high ^ low).max(1), flags: 1 }
    }

    /// Returns the trace id: 32 hexadecimal digits.
    pub fn trace_id(self) -> String {
        format!("{:032x}", self.trace)
    }

    /// Returns the span id: 16 hexadecimal digits.
    pub fn span_id(self) -> String {
        format!("{:016x}", self.span)
    }

    /// Whether the sender says that it records this trace.
    pub fn is_sampled(self) -> bool {
        self.flags & 1 == 1
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

impl FromStr for TraceContext {
    type Err = Error;

    /// Reads a `traceparent`. Of a later version, only the fields of this one are read, as W3C requires.
    fn from_str(text: &str) -> Result<Self, Error> {
        read(text).ok_or_else(|| {
            Error::invalid(format!(
                "{text:?} is not a traceparent: write `00-<32 hex digits>-<16 hex digits>-<2 hex digits>`"
            ))
        })
    }
}

fn read(text: &str) -> Option<TraceContext> {
    let mut parts = text.split('-');
    let version = hex(parts.next()?, 2)?;
    let context = TraceContext {
        trace: hex(parts.next()?, 32)?,
        span: u64::try_from(hex(parts.next()?, 16)?).ok()?,
        flags: u8::try_from(hex(parts.next()?, 2)?).ok()?,
    };
    let complete = version != 0 || parts.next().is_none();
    (complete && version != 0xff && context.trace != 0 && context.span != 0).then_some(context)
}

/// Reads exactly `digits` lower-case hexadecimal digits.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let good = text.len() == digits && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    good.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

impl Job {
    /// Returns the trace of this attempt, with the attempt as its span, for the handler to pass on in its calls. `None` if the sender gave
    /// none, or an unreadable one.
    pub fn trace(&self) -> Option<TraceContext> {
        let sent: TraceContext = self.headers.get(TRACEPARENT)?.parse().ok()?;
        Some(TraceContext { span: self.span(), ..sent })
    }

    /// Returns a span id for this attempt, from the random part of the job's id. It differs for each claim.
    fn span(&self) -> u64 {
        let random = self.id.as_uuid().as_u64_pair().1;
        (random ^ self.version.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15)).max(1)
    }

    /// Adds the trace of this attempt to a job that its handler sends, unless that job has one already or no space for it.
    pub(crate) fn carry_trace(&self, job: NewJob) -> NewJob {
        let Some(trace) = self.trace() else { return job };
        if job.headers.contains_key(TRACEPARENT) {
            return job;
        }
        let state = self.headers.get(TRACESTATE);
        let state = state.filter(|_| !job.headers.contains_key(TRACESTATE));
        if job.headers.len() + 1 + usize::from(state.is_some()) > super::limits::HEADERS_MAX {
            tracing::debug!(kind = job.kind, "it has so many headers that the trace context is not carried on");
            return job;
        }
        let job = job.trace(trace);
        match state {
            Some(state) => job.header(TRACESTATE, state),
            None => job,
        }
    }
}

impl NewJob {
    /// Makes the job part of a trace. Jobs that a handler sends join its job's trace without this call.
    pub fn trace(self, at: TraceContext) -> Self {
        self.header(TRACEPARENT, at.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_and_written_as_w3c_says() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let read: TraceContext = text.parse().unwrap();
        assert_eq!(read.to_string(), text);
        assert_eq!((read.span_id().as_str(), read.is_sampled()), ("00f067aa0ba902b7", true));
        let later = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-comes";
        assert_eq!(later.parse::<TraceContext>().unwrap(), read);
        for bad in [
            "",
            "00-1-2-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        ] {
            assert!(bad.parse::<TraceContext>().is_err(), "{bad:?}");
        }
        assert_ne!(TraceContext::root().trace_id(), TraceContext::root().trace_id());
    }
}
