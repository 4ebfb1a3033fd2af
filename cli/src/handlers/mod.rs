//! Handlers without Rust: programs and URLs.

mod command;
mod group;
pub(crate) mod leash;
mod output;
mod pipes;
mod stopping;
mod url;

pub(crate) use self::command::Program;
pub(crate) use self::output::Output;
pub(crate) use self::stopping::Stopping;
pub(crate) use self::url::{Webhook, check_url};

use jobwright::job::{TRACEPARENT, TRACESTATE};
use jobwright::{AnyStore, Job, JobContext, JobError, Outcome, Payload};

type Ended = Result<Outcome, JobError>;

/// Ends a job successfully, and sends its result to its requester.
fn reply(cx: &mut JobContext<'_, (), AnyStore>, answer: Payload) -> Ended {
    match cx.reply(answer) {
        Ok(_) => Ok(Outcome::Done),
        // A retry would end the same way.
        Err(error) => Err(JobError::fatal(format!("its result can't be sent to who asked for it: {error}"))),
    }
}

/// Returns the trace of a job for its handler, with the attempt as the calling span. It is passed as HTTP headers; programs get it as
/// variables (`JOBWRIGHT_TRACEPARENT`).
fn trace(job: &Job) -> [(&'static str, Option<String>); 2] {
    let here = job.trace().map(|trace| trace.to_string());
    let state = here.as_ref().and_then(|_| job.headers.get(TRACESTATE)).cloned();
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
