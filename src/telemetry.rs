//! Numbers and health of an executor, and counters of sent jobs, for metrics and probes.
//!
//! [`CommandExecutor::telemetry`](crate::CommandExecutor::telemetry) and [`MessageServices::sent`](crate::MessageServices::sent) return the
//! handles. The crate `jobwright-http` serves both over HTTP.

pub use crate::executor::{
    ExecutorMetrics, Health, HealthCheck, HealthState, Histogram, JobMetrics, ReleaseReason, Telemetry,
};
pub use crate::message::{Sent, SentJobs, SentMetrics};
