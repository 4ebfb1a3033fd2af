//! How the program logs: what, where to, and in which form.

use std::fmt;
use std::os::unix::fs::MetadataExt as _;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::args::{Cli, Command, LogFormat};
use crate::log::Log;
use crate::output::has_colors;

/// Logs go to stderr. A worker and an exporter log what they do, without ever waiting for the reader; other commands log only what is wrong. The demo and the
/// doctor explain themselves.
pub(crate) fn start(cli: &Cli) -> Option<Log> {
    let log = matches!(cli.command, Command::Worker(_) | Command::Exporter(_))
        .then(|| Log::to(std::io::stderr()).ok())
        .flatten();
    let writer = log.clone().map_or_else(|| BoxMakeWriter::new(std::io::stderr), BoxMakeWriter::new);
    let logging = tracing_subscriber::fmt()
        .with_env_filter(filter(cli))
        .with_writer(writer)
        .with_target(false)
        // Its complaint about a closed stderr would be a panic.
        .log_internal_errors(false);
    // Each fails only if a subscriber is set already.
    let _ = match cli.log_format {
        LogFormat::Json => {
            let json = logging.json().flatten_event(true).with_current_span(true).with_span_list(false);
            tracing::subscriber::set_global_default(json.finish())
        }
        LogFormat::Text if is_journal() => {
            let format = Format::default().with_target(false).with_ansi(false).without_time();
            tracing::subscriber::set_global_default(logging.with_ansi(false).event_format(Prioritized(format)).finish())
        }
        LogFormat::Text => {
            tracing::subscriber::set_global_default(logging.with_ansi(has_colors(&std::io::stderr())).finish())
        }
    };
    log
}

fn filter(cli: &Cli) -> EnvFilter {
    let default = match (&cli.command, cli.quiet, cli.verbose) {
        // The output of `status` and `broker show` says it.
        (_, true, _) | (Command::Status(_) | Command::Broker(_), _, 0) => "error",
        (Command::Demo(_) | Command::Doctor(_), _, 0) => "off",
        (Command::Worker(_) | Command::Exporter(_), _, 0) => "info",
        (_, _, 0) => "warn",
        (_, _, 1) => "jobwright=debug,info",
        _ => "jobwright=trace,debug",
    };
    // Without the AMQP client's own log, which reports a missing queue as an error even when a check expects it.
    let quieted = || EnvFilter::new(format!("{default},lapin=off"));
    if cli.quiet || cli.verbose > 0 {
        return if cli.verbose > 1 { EnvFilter::new(default) } else { quieted() };
    }
    let asked = std::env::var(EnvFilter::DEFAULT_ENV).ok().filter(|asked| !asked.trim().is_empty());
    asked.and_then(|asked| EnvFilter::try_new(asked).ok()).unwrap_or_else(quieted)
}

/// Whether stderr is the journal of systemd, which says so by the device and number of the file (`systemd.exec(5)`).
fn is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    let Ok(stderr) = std::fs::metadata("/proc/self/fd/2") else { return false };
    stream == format!("{}:{}", stderr.dev(), stderr.ino())
}

/// Begins each line with its priority, as the journal reads it (`sd-daemon(3)`).
struct Prioritized<F>(F);

impl<S, N, F> FormatEvent<S, N> for Prioritized<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        writer.write_str(match *event.metadata().level() {
            Level::ERROR => "<3>",
            Level::WARN => "<4>",
            Level::INFO => "<6>",
            _ => "<7>",
        })?;
        self.0.format_event(context, writer, event)
    }
}
