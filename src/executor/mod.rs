//! The command executor.
//!
//! ```text
//!             claim (batches, free slots only)             outcomes (batches)
//!  job table ────────────▶ Dispatcher ──▶ workers ──▶ Completer ────────▶ job table
//!      ▲     one per queue      ▲            └─ a handler that used its transaction: its own commit
//!      │                        └── hints: commits in this process, LISTEN, polls
//!      ├── Broker: deliveries, submissions, external workers (see `broker`)
//!      ├── Timers: moves due timers to the waiting jobs
//!      ├── Expiry: removes jobs whose time to live is over
//!      ├── Admission: starts blocked jobs of groups and limits when they may run
//!      ├── UsageReporter: writes what ended here under limits that claims count
//!      ├── Scheduler: inserts the jobs of due schedules
//!      ├── Cancellations: cancels handlers whose job was cancelled
//!      ├── LockMonitor: makes jobs of dead nodes wait again, or dead-letters them
//!      ├── Reconciler: takes back permits that no trigger released
//!      ├── Pruner: deletes old history
//!      └── Heartbeat: renews the node's lease, on its own thread
//! ```
//!
//! An executor lives under a node id, which is new for each start. When it can't renew its lease in time, it stops all its work before
//! others may take it, registers under a new id and goes on. So an outage of the database needs no restart.

#[cfg(feature = "rabbitmq")]
mod broker;
mod builder;
mod dispatch;
#[expect(clippy::module_inception, reason = "the executor itself stands beside its parts")]
mod executor;
mod groups;
mod handler;
mod kinds;
mod lifecycle;
mod maintenance;
pub(crate) mod manual;
mod metrics;
mod node;
mod node_info;
mod outcome;
mod panic;
mod run;
mod telemetry;

pub use self::builder::ExecutorBuilder;
pub use self::executor::CommandExecutor;
pub use self::handler::batch::{Batch, BatchOptions, BatchOutcomes};
pub use self::handler::command::Command;
pub use self::handler::external_queue::ExternalQueue;
pub use self::handler::job_context::JobContext;
pub use self::handler::middleware::{Middleware, Next};
pub use self::kinds::classifier::Classifier;
pub use self::kinds::options::{DEFAULT_TIMEOUT, KindOptions};
pub use self::metrics::health::{Health, HealthCheck, HealthState};
pub use self::metrics::releases::ReleaseReason;
pub use self::metrics::snapshot::{ExecutorMetrics, Histogram, JobMetrics};
pub use self::metrics::stats::ExecutorStats;
pub use self::telemetry::Telemetry;
