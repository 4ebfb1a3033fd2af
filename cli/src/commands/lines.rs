//! One job for each line of stdin, in batched transactions.

use std::time::{Duration, Instant};

use jobwright::{AnyStore, ErrorKind, MessageServices, NewJob, Payload};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};
use tokio::time::timeout;

use super::job_options::with_options;
use super::progress;
use crate::args::SendArgs;
use crate::failure::Failure;
use crate::output::{counted, say};

/// Jobs in one transaction.
const BATCH: usize = 1000;
/// Payload bytes in one transaction: a batch of long lines commits earlier.
const BATCH_BYTES: usize = 8 * 1024 * 1024;
/// A batch is sent as it is when no line has come for this long.
const QUIET: Duration = Duration::from_millis(100);
/// No line waits in a batch for longer than this.
const LONGEST: Duration = Duration::from_secs(1);

/// Sends all lines of `input`.
pub(super) async fn send_lines(
    messages: &MessageServices<AnyStore>,
    args: &SendArgs,
    input: impl AsyncBufRead + Unpin,
    longest: usize,
    quiet: bool,
) -> Result<(), Failure> {
    let began = Instant::now();
    let bar = progress::counter("jobs sent", quiet);
    let mut lines = Lines::new(input, longest);
    let mut stop = std::pin::pin!(tokio::signal::ctrl_c());
    let (mut sent, mut known): (u64, u64) = (0, 0);
    loop {
        let first = lines.number + 1;
        let mut batch = messages.begin();
        let mut bytes = 0;
        let mut last = lines.number;
        let mut due = Instant::now() + LONGEST;
        // A line that can't be sent ends the input, but the lines before it are sent.
        let end = loop {
            if batch.pending().len() == BATCH || bytes >= BATCH_BYTES {
                break None;
            }
            let next = async {
                // What came is sent when nothing follows it for a moment: the writer may go on for hours.
                if batch.pending().is_empty() {
                    Some(lines.next().await)
                } else {
                    timeout(QUIET.min(due.saturating_duration_since(Instant::now())), lines.next()).await.ok()
                }
            };
            let next = tokio::select! {
                biased;
                _ = &mut stop => {
                    bar.finish_and_clear();
                    batch.rollback().await?;
                    return Err(Failure::Interrupted(interrupted(first - 1)));
                }
                next = next => next,
            };
            let Some(next) = next else { break None };
            match next {
                Ok(Some(line)) => {
                    bytes += line.len();
                    if batch.pending().is_empty() {
                        due = Instant::now() + LONGEST;
                    }
                    match job(args, line) {
                        Ok(Some(job)) => {
                            if let Err(error) = batch.send(job) {
                                break Some(Err(Failure::from(error).to_string()));
                            }
                            last = lines.number;
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
        match batch.commit_with_receipt().await {
            Ok(receipt) => {
                let there = (receipt.duplicates().len() + receipt.already_sent().len()) as u64;
                sent += jobs - there.min(jobs);
                known += there;
            }
            Err(error) => {
                bar.finish_and_clear();
                let what = if error.kind() == ErrorKind::CommitUnknown { "may have failed" } else { "failed" };
                say(format!("{} before; the commit of lines {first} to {last} {what}", summary(sent, known)));
                if let Some(Err(why)) = end {
                    say(format!("line {} can't be sent: {why}", lines.number));
                }
                return Err(error.into());
            }
        }
        bar.set_position(sent);
        match end {
            None => {}
            Some(Ok(())) => {
                bar.finish_and_clear();
                if !quiet {
                    say(format!("{} in {:.1} s", summary(sent, known), began.elapsed().as_secs_f64()));
                }
                return Ok(());
            }
            Some(Err(why)) => {
                bar.finish_and_clear();
                return Err(Failure::Failed(format!(
                    "line {} can't be sent: {why}; all lines before it have been sent: {}",
                    lines.number,
                    summary(sent, known)
                )));
            }
        }
    }
}

/// Says how many jobs were sent, and how many were there already.
fn summary(sent: u64, known: u64) -> String {
    let jobs = counted(sent, "job");
    match known {
        0 => format!("sent {jobs}"),
        _ => format!("sent {jobs}, already there: {known}"),
    }
}

/// Says how to go on after an interruption behind this line.
fn interrupted(line: u64) -> String {
    match line {
        0 => "interrupted: nothing has been sent".to_owned(),
        _ => format!("interrupted: lines 1 to {line} have been sent; the rest is `tail -n +{}`", line + 1),
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
    /// The beginning of the next line, which has not come as a whole.
    begun: Vec<u8>,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    fn new(input: R, longest: usize) -> Self {
        Self { input, longest, number: 0, begun: Vec::new() }
    }

    /// Reads the next line without its newline, or its carriage return and newline. Never holds more in memory than a payload may have. A call that is given up loses nothing.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        loop {
            let read = self.input.fill_buf().await;
            let chunk = read.map_err(|error| format!("stdin can't be read: {error}"));
            let chunk = chunk.inspect_err(|_| self.number += 1)?;
            if chunk.is_empty() {
                if self.begun.is_empty() {
                    return Ok(None);
                }
                return Ok(Some(self.take()));
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(chunk.len());
            self.begun.extend_from_slice(&chunk[..taken]);
            self.input.consume(taken + usize::from(end.is_some()));
            if self.begun.len() > self.longest {
                self.number += 1;
                return Err(format!("it is longer than {} bytes (`database.max_payload`)", self.longest));
            }
            if end.is_some() {
                // Of files that were written on Windows.
                self.begun.pop_if(|last| *last == b'\r');
                return Ok(Some(self.take()));
            }
        }
    }

    fn take(&mut self) -> Vec<u8> {
        self.number += 1;
        std::mem::take(&mut self.begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_cut_at_newlines_of_any_system() {
        let mut lines = Lines::new(&b"a\rb\r\n\n\xff b\nlast\r"[..], 10);
        let mut all = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            all.push(line);
        }
        assert_eq!(all, [&b"a\rb"[..], b"", b"\xff b", b"last\r"]);
        assert_eq!(lines.number, 4);
    }

    #[tokio::test]
    async fn a_long_line_is_not_read_to_its_end() {
        let mut lines = Lines::new(&b"ok\nfar too long"[..], 5);
        assert_eq!(lines.next().await.unwrap().unwrap(), b"ok");
        assert!(lines.next().await.unwrap_err().contains("longer than 5 bytes"));
        assert_eq!(lines.number, 2);
    }
}
