//! Arguments of `jobwright jobs history`.

use clap::Args;
use jiff::Timestamp;
use jobwright::JobId;
use jobwright::admin::{HistoryFilter, HistoryOutcome, TimeRange};

use super::shared::{OutputArgs, moment, rows};

#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Only for this job.
    #[arg(value_name = "ID")]
    pub(crate) id: Option<JobId>,
    /// Only in this queue.
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// Only for this kind.
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// Only these outcomes: done, failed, lost, dead, expired, cancelled, deleted.
    #[arg(long, value_delimiter = ',')]
    pub(crate) outcome: Vec<HistoryOutcome>,
    /// Only those whose error contains this text.
    #[arg(long, value_name = "TEXT")]
    pub(crate) error: Option<String>,
    /// Only what ended since then: a time, or how long ago (`2h`).
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) since: Option<Timestamp>,
    /// Only what ended before then.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub(crate) until: Option<Timestamp>,
    /// At most this many.
    #[arg(long, default_value_t = 100, value_parser = rows)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl HistoryArgs {
    pub(crate) fn filter(&self) -> HistoryFilter {
        let mut filter = HistoryFilter::default();
        filter.id = self.id;
        filter.queue.clone_from(&self.queue);
        filter.kind.clone_from(&self.kind);
        filter.outcomes = (!self.outcome.is_empty()).then(|| self.outcome.clone());
        filter.error.clone_from(&self.error);
        filter.ended = TimeRange { since: self.since, until: self.until };
        filter
    }
}
