//! Arguments that several commands have, and how their values are read.

use clap::{Args, ValueEnum};
use jiff::Timestamp;

use crate::output::Format;

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct OutputArgs {
    /// Output format.
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT", default_value_if("json", "true", "json"))]
    pub(crate) output: Format,
    /// The same as `--output json`, as other programs name it.
    #[arg(long = "json", id = "json", hide = true, conflicts_with = "output")]
    _json: bool,
}

/// Reads a number of rows.
pub(super) fn rows(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("write 1 or more".to_owned()),
        Ok(rows) => Ok(rows),
        Err(_) => Err("it is not a number of rows".to_owned()),
    }
}

/// Reads a priority.
pub(super) fn priority(text: &str) -> Result<i16, String> {
    let wrong = || "write -32767 to 32767".to_owned();
    text.parse()
        .map_err(|_| wrong())
        .and_then(|priority| if priority == i16::MIN { Err(wrong()) } else { Ok(priority) })
}

/// The operator.
#[derive(Debug, Args)]
pub(crate) struct OperatorArgs {
    /// Your name for the audit log [default: `$USER@host`].
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) operator: Option<String>,
}

/// Reads `2026-03-29T12:00:00Z`.
pub(super) fn timestamp(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| {
        "it is not a point in time of the years 1 to 9998: write date, time and offset, such as 2026-03-29T12:00:00Z or 2026-03-29T14:00:00+02:00"
            .to_owned()
    })
}

/// Reads `2026-03-29T12:00:00Z`, or `2h` for two hours ago.
pub(super) fn moment(text: &str) -> Result<Timestamp, String> {
    if let Ok(moment) = text.parse() {
        return Ok(moment);
    }
    let ago = jobwright::internal::parse_duration(text).map_err(|_| {
        "it is neither a point in time such as 2026-03-29T12:00:00Z nor a duration such as 2h, which means that long ago"
            .to_owned()
    })?;
    Timestamp::now().checked_sub(ago).map_err(|_| "it is too long ago".to_owned())
}

/// Reads `name=value`.
pub(super) fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("a header is written as `name=value`")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people. In the journal of systemd, each has its priority.
    #[default]
    Text,
    /// One JSON object a line: `timestamp`, `level`, `message`, the fields of the line, and in `span` those of the job.
    Json,
}
