//! Numbers and states of an executor for its observers.
//!
//! The hot path feeds [counters and histograms](histogram) of fixed size: a job costs a few atomic additions, no statement and no allocation.
//! [`Telemetry`](crate::executor::Telemetry) reads them. Their text for Prometheus is made elsewhere, so the library depends on no metrics
//! library, whose versions would become part of its API.

pub(crate) mod attempts;
pub(crate) mod health;
pub(crate) mod histogram;
pub(crate) mod releases;
pub(crate) mod snapshot;
pub(crate) mod stats;
