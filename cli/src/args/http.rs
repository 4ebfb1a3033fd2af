//! Arguments of the commands that listen for HTTP, and of `jobwright health`, which asks them.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::address::Address;

pub(super) const EXPORTER_HELP: &str = "\
Serves /metrics until SIGINT or SIGTERM: the depth and age of queues, dead letters, nodes, slots, pauses, and how many jobs wait for which
reason. These numbers are those of the database, so one exporter is enough. A worker serves its own counters
(`jobwright worker --listen`). The exporter needs the rights of `jobwright grants monitor`.

While the database does not answer, also at the start, jobwright_database_up is 0 and all other metrics are absent. /livez always passes.

Example:
  jobwright exporter --listen 9470
  curl -s http://127.0.0.1:9470/metrics";

pub(super) const HEALTH_HELP: &str = "\
Asks the worker that listens there (`jobwright worker --listen`), for containers and scripts that can't send a request. The command checks neither the
database nor the broker itself: `jobwright doctor` does.

Exit codes: 0 the worker is healthy, 1 it is not, 3 nothing answers there.

Example:
  jobwright health 9469
  jobwright health --probe live 127.0.0.1:9469";

#[derive(Debug, Args)]
pub(crate) struct ExporterArgs {
    /// Listen here [default: port 9470 of the loopback interface].
    #[arg(long, value_name = "[HOST:]PORT")]
    pub(crate) listen: Option<Address>,
    /// Ask the database at most once in this time, however many clients scrape.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = jobwright::internal::parse_duration)]
    pub(crate) every: Duration,
}

/// A question to a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Probe {
    /// Whether it works now.
    #[default]
    Ready,
    /// Whether it can still work, or only a restart helps.
    Live,
    /// Whether it has begun to work.
    Startup,
}

#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    /// Where the worker listens [default: `http.listen`].
    #[arg(value_name = "[HOST:]PORT")]
    pub(crate) address: Option<Address>,
    /// Which question is asked.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) probe: Probe,
    /// How long to wait for the answer.
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = jobwright::internal::parse_duration)]
    pub(crate) timeout: Duration,
}
