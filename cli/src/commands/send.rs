//! `jobwright send`.

use std::io::Seek as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;

use jobwright::{NewJob, Payload};
use nix::poll::{PollFd, PollFlags, poll};
use tokio::io::{AsyncReadExt as _, BufReader};

use super::connect_to_send;
use super::job_options::with_options;
use super::lines::send_lines;
use crate::args::SendArgs;
use crate::config::Settings;
use crate::failure::Failure;
use crate::output::{line, say};

pub(crate) async fn run(settings: &Settings, args: SendArgs, quiet: bool) -> Result<(), Failure> {
    let longest = settings.database.max_payload;
    if args.lines || args.jsonl {
        let messages = connect_to_send(settings).await?;
        messages.prepare(&args.options.queue).await;
        let input = BufReader::with_capacity(256 * 1024, tokio::io::stdin());
        let sent = send_lines(&messages, &args, input, longest, quiet).await;
        messages.wake_ups_sent().await;
        return sent;
    }
    let queue = args.options.queue.clone();
    let payload = payload(args.payload.as_deref(), args.options.content_type.as_deref(), longest).await?;
    let mut job = with_options(NewJob::new(&args.kind, payload), &args);
    if let Some(id) = args.options.id {
        job = job.id(id);
    }
    let messages = connect_to_send(settings).await?;
    messages.prepare(&queue).await;
    let mut context = messages.begin();
    let id = context.send(job)?;
    let receipt = context.commit_with_receipt().await?;
    // This process ends now, and an unsent delivery or wake-up would be lost with it.
    messages.wake_ups_sent().await;
    if receipt.already_sent().contains(&id) && !quiet {
        say(format!("job {id} was already sent, and stays as it is"));
    }
    // A unique job that was not sent is the one that holds its key.
    let id = receipt.duplicates().iter().find(|(sent, _)| *sent == id).map_or(id, |(_, holder)| *holder);
    line(id.to_string())
}

pub(super) async fn payload(
    argument: Option<&str>,
    content_type: Option<&str>,
    longest: usize,
) -> Result<Payload, Failure> {
    let bytes = match argument {
        Some("-") => {
            let mut bytes = Vec::new();
            // One byte more than allowed is enough for the library to refuse it.
            let limit = longest as u64 + 1;
            let read = tokio::io::stdin().take(limit).read_to_end(&mut bytes).await;
            read.map_err(|error| Failure::Failed(format!("stdin can't be read: {error}")))?;
            if bytes.len() > longest {
                return Err(Failure::Usage(format!(
                    "stdin has more than {longest} bytes, the most a payload may have (`database.max_payload`): \
                     store it elsewhere and send a reference"
                )));
            }
            bytes
        }
        Some(text) => text.as_bytes().to_vec(),
        None => {
            refuse_input()?;
            b"null".to_vec()
        }
    };
    match content_type {
        Some(content_type) if content_type != "application/json" => Ok(Payload::bytes(content_type, bytes)),
        _ => {
            let hint =
                "write JSON (a text needs quotes: '\"text\"'), or give its type with `--content-type text/plain`";
            let text = String::from_utf8(bytes)
                .map_err(|_| Failure::Usage(format!("the payload is not UTF-8, so not JSON: {hint}")))?;
            Payload::json_text(text).map_err(|error| Failure::Usage(format!("{error}; {hint}")))
        }
    }
}

/// How long a pipe may take to show whether it has something, in milliseconds.
const SOON: u8 = 100;

/// Refuses input that would be ignored: whoever pipes a payload means it to be sent.
fn refuse_input() -> Result<(), Failure> {
    if !has_input().unwrap_or(false) {
        return Ok(());
    }
    Err(Failure::Usage(
        "stdin has data, and no payload is given: write `-` as the payload to send all of stdin, `--lines` to send a job for each line of it, or \
         `null` to send neither"
            .to_owned(),
    ))
}

/// Whether stdin is a file or a pipe with something to read. It reads nothing: what is there may be for another program. In the program of a handler, it is
/// the payload of the job that runs.
fn has_input() -> std::io::Result<bool> {
    if std::env::var_os("JOBWRIGHT_JOB_ID").is_some() {
        return Ok(false);
    }
    let stdin = std::io::stdin();
    let mut file = std::fs::File::from(stdin.as_fd().try_clone_to_owned()?);
    let known = file.metadata()?;
    if known.is_file() {
        return Ok(file.stream_position()? < known.len());
    }
    if !known.file_type().is_fifo() {
        return Ok(false);
    }
    let mut asked = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    poll(&mut asked, SOON)?;
    Ok(asked[0].revents().is_some_and(|found| found.contains(PollFlags::POLLIN)))
}
