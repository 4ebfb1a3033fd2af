//! Arguments of `jobwright send`.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use jobwright::JobId;

use super::shared::{header, priority, timestamp};

pub(super) const SEND_HELP: &str = "\
--lines: a line, without its newline, is the payload as text/plain; one that is not UTF-8 as application/octet-stream. An empty
line is a job with an empty text; the end of the input is no line. --jsonl: each line is a JSON document, empty lines are skipped.
Each 1000 lines commit together. A line that can't be sent stops the command; all lines before it have been sent.

--event: no handler runs the message. Once it has committed, a worker with a broker publishes it to the broker's exchange
PREFIX.event with the routing key PREFIX.event.KIND, for all listeners.

Example:
  jobwright send send-invoice '{\"order\": 42}' --queue billing --priority 5
  jobwright send resize - --content-type image/png < photo.png
  jobwright send --event order-shipped '{\"order\": 42}'
  jobwright send quote '{\"order\": 42}' --reply-to my-answers --correlation-id 42
  find . -type f | jobwright send checksum --lines";

/// Headings of its options.
const CONTENT: &str = "Content";
const TIMING: &str = "Queue and time";
const OTHERS: &str = "Beside other jobs";
const RESULT: &str = "Result";

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// The kind of job, for which a handler is registered.
    pub(crate) kind: String,
    /// JSON text, or `-` for stdin [default: null].
    #[arg(conflicts_with_all = ["lines", "jsonl"], allow_hyphen_values = true)]
    pub(crate) payload: Option<String>,
    /// Send each line of stdin as text.
    #[arg(long, help_heading = CONTENT, conflicts_with = "jsonl")]
    pub(crate) lines: bool,
    /// Send each line of stdin as JSON.
    #[arg(long, help_heading = CONTENT)]
    pub(crate) jsonl: bool,
    /// Send an event: a message of this kind to all listeners at the broker.
    #[arg(long, help_heading = CONTENT, conflicts_with_all = ["queue", "reply_to"])]
    pub(crate) event: bool,
    #[command(flatten)]
    pub(crate) options: SendOptions,
}

/// Options shared by all jobs of one call.
#[derive(Debug, Args)]
pub(crate) struct SendOptions {
    /// The queue in which it waits.
    #[arg(long, help_heading = TIMING, default_value = jobwright::DEFAULT_QUEUE)]
    pub(crate) queue: String,
    /// Higher runs first, -32767 to 32767.
    #[arg(long, help_heading = TIMING, default_value_t = 0, allow_negative_numbers = true, value_parser = priority)]
    pub(crate) priority: i16,
    /// Run no sooner than this long from now: `30s`, `1h 30m`, `PT1M`.
    #[arg(long, help_heading = TIMING, value_parser = duration, conflicts_with = "at")]
    pub(crate) delay: Option<Duration>,
    /// Run no sooner than this time: `2030-01-01T00:00:00Z`.
    #[arg(long, help_heading = TIMING, value_parser = timestamp)]
    pub(crate) at: Option<Timestamp>,
    /// Attempts before it becomes a dead letter.
    #[arg(long, help_heading = TIMING, default_value_t = jobwright::DEFAULT_MAX_ATTEMPTS)]
    pub(crate) max_attempts: u32,
    /// A header: a string beside the payload (repeatable).
    #[arg(long, help_heading = CONTENT, value_name = "NAME=VALUE", value_parser = header)]
    pub(crate) header: Vec<(String, String)>,
    /// The job's id, a UUID: while a job of this id exists, sending it again changes nothing. One of another kind or queue is a conflict.
    #[arg(long, help_heading = OTHERS, conflicts_with_all = ["lines", "jsonl"])]
    pub(crate) id: Option<JobId>,
    /// Its exclusive group: no two jobs of one group run at the same time.
    #[arg(long, help_heading = OTHERS, value_name = "NAME")]
    pub(crate) group: Option<String>,
    /// Strict order within the group: if it fails, the group waits for it.
    #[arg(long, help_heading = OTHERS, requires = "group")]
    pub(crate) ordered: bool,
    /// The tenant on whose behalf it runs: limits and shares may apply to it.
    #[arg(long, help_heading = OTHERS, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// A key of your own that limits may apply to.
    #[arg(long, help_heading = OTHERS, value_name = "NAME")]
    pub(crate) limit_key: Option<String>,
    /// How long it may wait for its start before it becomes a dead letter: `30s`, `PT1M`.
    #[arg(long, help_heading = TIMING, value_name = "DURATION", value_parser = duration)]
    pub(crate) ttl: Option<Duration>,
    /// Be the only job of this kind with this key: while another holds it, nothing is sent, and that job's id is printed.
    #[arg(long, help_heading = OTHERS, value_name = "KEY")]
    pub(crate) unique: Option<String>,
    /// Send the handler's result to this queue of the broker.
    #[arg(long, help_heading = RESULT, value_name = "QUEUE")]
    pub(crate) reply_to: Option<String>,
    /// The correlation id of the result.
    #[arg(long, help_heading = RESULT, value_name = "ID", requires = "reply_to")]
    pub(crate) correlation_id: Option<String>,
    /// Send the payload as bytes of this type, not as JSON.
    #[arg(long, help_heading = CONTENT, value_name = "TYPE", conflicts_with = "jsonl")]
    pub(crate) content_type: Option<String>,
}

fn duration(text: &str) -> Result<Duration, String> {
    jobwright::internal::parse_duration(text)
}
