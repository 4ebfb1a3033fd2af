//! Handlers without Rust: programs and URLs.

mod command;
mod environment;
mod group;
pub(crate) mod leash;
mod output;
mod pipes;
mod program_file;
mod stopping;
mod url;
mod withheld;

pub(crate) use self::command::Program;
pub(crate) use self::output::Output;
pub(crate) use self::program_file::{fault, places};
pub(crate) use self::stopping::Stopping;
pub(crate) use self::url::{Webhook, check_url};
pub(crate) use self::withheld::{HOOKS_WITHHELD, KEYS_WITHHELD, WITHHELD};

use jobwright::headers::{TRACEPARENT, TRACESTATE};
use jobwright::{AnyStore, Job, JobContext, JobError, Outcome, Payload};

/// The longest state of a trace that is passed on. Headers of jobs that are not sent in SQL are no longer than that.
const TRACESTATE_MOST: usize = 4096;

type Ended = Result<Outcome, JobError>;

/// What any bytes are.
const ANY_BYTES: &str = "application/octet-stream";

/// Ends a job successfully, and sends its result to its requester. The work is done: a result that is not what its type says, or whose type
/// is none, is sent as plain bytes.
fn reply(cx: &mut JobContext<'_, (), AnyStore>, answer: Payload) -> Ended {
    let bytes = Payload::bytes(ANY_BYTES, answer.as_bytes());
    let content_type = answer.content_type().to_owned();
    let sent = cx.reply(answer).or_else(|error| {
        tracing::warn!(%error, content_type, "the result is sent as {ANY_BYTES}");
        cx.reply(bytes)
    });
    match sent {
        Ok(_) => Ok(Outcome::Done),
        // A retry would end the same way.
        Err(error) => Err(JobError::fatal(format!("its result can't be sent to the requester: {error}"))),
    }
}

/// Returns the trace of a job for its handler, with the attempt as the calling span. It is passed as HTTP headers; programs get it as
/// variables (`JOBWRIGHT_TRACEPARENT`).
fn trace(job: &Job) -> [(&'static str, Option<String>); 2] {
    let here = job.trace().map(|trace| trace.to_string());
    // A job that was sent in SQL may have anything there. Whoever passes a trace on may leave the state out.
    let fits = |state: &&String| state.len() <= TRACESTATE_MOST && !state.contains(char::is_control);
    let state = here.as_ref().and_then(|_| job.headers.get(TRACESTATE)).filter(fits).cloned();
    [(TRACEPARENT, here), (TRACESTATE, state)]
}

/// Returns the last `most` bytes as text, from the beginning of a line if one begins there.
fn tail(bytes: &[u8], most: usize) -> String {
    if bytes.len() <= most {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let cut = &bytes[bytes.len() - most..];
    let line = cut.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    String::from_utf8_lossy(if line < cut.len() { &cut[line..] } else { cut }).into_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_tail_begins_with_a_line() {
        assert_eq!(super::tail(b"one\ntwo\nthree\n", 12), "two\nthree\n");
        assert_eq!(super::tail(b"one\n", 12), "one\n");
        assert_eq!(super::tail(b"0123456789", 4), "6789");
    }
}
