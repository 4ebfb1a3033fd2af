//! One job for each line of stdin, in batched transactions.

use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use jobwright::{AnyStore, MessageServices, NewJob, Payload};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

use super::job_options::with_options;
use crate::args::SendArgs;
use crate::failure::Failure;
use crate::output::{is_interactive, say};

/// Jobs in one transaction.
const BATCH: usize = 1000;
/// Payload bytes in one transaction: a batch of long lines commits earlier.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// Sends all lines of `input`.
pub(super) async fn send_lines(
    messages: &MessageServices<AnyStore>,
    args: &SendArgs,
    input: impl AsyncBufRead + Unpin,
    longest: usize,
    quiet: bool,
) -> Result<(), Failure> {
    let began = Instant::now();
    let bar = progress(quiet);
    let mut lines = Lines { input, longest, number: 0 };
    let mut sent: u64 = 0;
    loop {
        let first = lines.number + 1;
        let mut batch = messages.begin();
        let mut bytes = 0;
        // A line that can't be sent ends the input, but the lines before it are sent.
        let end = loop {
            if batch.pending().len() == BATCH || bytes >= BATCH_BYTES {
                break None;
            }
            match lines.next().await {
                Ok(Some(line)) => {
                    bytes += line.len();
                    match job(args, line) {
                        Ok(Some(job)) => {
                            if let Err(error) = batch.send(job) {
                                break Some(Err(Failure::from(error).to_string()));
                            }
                        }
                        Ok(None) => {}
                        Err(why) => break Some(Err(why)),
                    }
                }
                Ok(None) => break Some(Ok(())),
                Err(why) => break Some(Err(why)),
            }
        };
        let jobs = batch.pending().len() as u64;
        if let Err(error) = batch.commit().await {
            bar.finish_and_clear();
            say(format!("{sent} jobs were sent before; the commit of lines {first} to {} failed", lines.number));
            return Err(error.into());
        }
        sent += jobs;
        bar.set_position(sent);
        match end {
            None => {}
            Some(Ok(())) => {
                bar.finish_and_clear();
                if !quiet {
                    say(format!("sent {sent} jobs in {:.1} s", began.elapsed().as_secs_f64()));
                }
                return Ok(());
            }
            Some(Err(why)) => {
                bar.finish_and_clear();
                return Err(Failure::Failed(format!(
                    "line {} can't be sent: {why}; {sent} jobs, all lines before it, have been sent",
                    lines.number
                )));
            }
        }
    }
}

/// Returns the job for a line; `None` for an empty line where JSON is expected.
fn job(args: &SendArgs, line: Vec<u8>) -> Result<Option<NewJob>, String> {
    let payload = if args.jsonl {
        let text = String::from_utf8(line).map_err(|_| "it is not UTF-8, so not JSON".to_owned())?;
        if text.trim().is_empty() {
            return Ok(None);
        }
        Payload::json_text(text).map_err(|error| error.to_string())?
    } else if let Some(content_type) = &args.options.content_type {
        Payload::bytes(content_type, line)
    } else {
        match String::from_utf8(line) {
            Ok(text) => Payload::text(text),
            Err(raw) => Payload::bytes("application/octet-stream", raw.into_bytes()),
        }
    };
    Ok(Some(with_options(NewJob::new(&args.kind, payload), args)))
}

/// Reads lines of bytes and counts them.
struct Lines<R> {
    input: R,
    longest: usize,
    /// Number of the line read last; the first is 1.
    number: u64,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    /// Reads the next line without its newline. Never holds more in memory than a payload may have.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        let mut line = Vec::new();
        self.number += 1;
        loop {
            let chunk = self.input.fill_buf().await.map_err(|error| format!("stdin can't be read: {error}"))?;
            if chunk.is_empty() {
                if line.is_empty() {
                    self.number -= 1;
                    return Ok(None);
                }
                return Ok(Some(line));
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(chunk.len());
            line.extend_from_slice(&chunk[..taken]);
            self.input.consume(taken + usize::from(end.is_some()));
            if line.len() > self.longest {
                return Err(format!("it is longer than {} bytes (`database.max_payload`)", self.longest));
            }
            if end.is_some() {
                return Ok(Some(line));
            }
        }
    }
}

fn progress(quiet: bool) -> ProgressBar {
    if quiet || !is_interactive() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {human_pos} jobs sent ({per_sec})");
    ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_cut_at_newlines_only() {
        let mut lines = Lines { input: &b"a\r\n\n\xff b\nlast"[..], longest: 10, number: 0 };
        let mut all = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            all.push(line);
        }
        assert_eq!(all, [&b"a\r"[..], b"", b"\xff b", b"last"]);
        assert_eq!(lines.number, 4);
    }

    #[tokio::test]
    async fn a_long_line_is_not_read_to_its_end() {
        let mut lines = Lines { input: &b"ok\nfar too long"[..], longest: 5, number: 0 };
        assert_eq!(lines.next().await.unwrap().unwrap(), b"ok");
        assert!(lines.next().await.unwrap_err().contains("longer than 5 bytes"));
        assert_eq!(lines.number, 2);
    }
}
