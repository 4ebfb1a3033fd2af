//! Metrics and probes of jobwright over HTTP.
//!
//! [`executor()`] returns the routes of an executor, to be nested into a service's own router or [served](serve) alone:
//!
//! | route | answers |
//! |---|---|
//! | `/metrics` | counters and histograms, in the text form of [OpenMetrics](https://prometheus.io/docs/specs/om/open_metrics_spec/) or of Prometheus |
//! | `/livez` | 200 while the executor can still work at some time; an outage of the database or the broker is no reason to restart it |
//! | `/readyz` | 200 while it works: its lease is renewed, and jobs of each queue are claimed |
//! | `/startupz` | 200 once its lease was renewed |
//!
//! Probes say why they fail, one check to a line; with `?verbose` they always do. A client that accepts `application/json` gets that.
//! None of these asks the database or the broker.
//!
//! [`sender()`] returns `/metrics` for a service that sends jobs and has no executor.
//!
//! [`exporter()`] returns `/metrics` for the database: the depth and age of queues and kinds, dead letters, nodes, the reasons that hold jobs up, and
//! what keeps the tables from being cleaned up. They are the same wherever they are read, so one process exports them and not each worker.
//!
//! ```no_run
//! # async fn f(executor: jobwright::CommandExecutor) -> Result<(), Box<dyn std::error::Error>> {
//! let app = axum::Router::new().nest("/jobs", jobwright_http::executor(executor.telemetry()));
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:9469").await?;
//! jobwright_http::serve(listener, app, std::future::pending()).await?;
//! # Ok(()) }
//! ```
//!
//! There is no authentication and no TLS: listen on the loopback interface, in a network of your own, or behind a proxy. Names of queues and
//! kinds are shown, and in probes the texts of errors; no payload is.

mod database;
mod encode;
mod executor;
mod kinds;
mod later;
mod overdue;
mod probes;
mod sent;
mod vacuum;

use std::io;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use jobwright::admin::Admin;
use jobwright::telemetry::Sent;
use jobwright::telemetry::Telemetry;
use tokio::net::TcpListener;

pub use self::later::Later;

/// Returns the routes of an executor: metrics and probes.
///
/// A program that has no executor yet passes a [`Later`], and [sets](Later::set) it once the executor has started. Until then `/livez` passes, `/readyz`
/// and `/startupz` fail, and there are no metrics: a program that waits for its database must not look dead.
pub fn executor(telemetry: impl Into<Later<Telemetry>>) -> Router {
    Router::new()
        .route("/metrics", get(executor::metrics))
        .route("/livez", get(probes::live))
        .route("/readyz", get(probes::ready))
        .route("/startupz", get(probes::started))
        .with_state(telemetry.into())
}

/// Returns `/metrics` for the database, and a `/livez` that always passes. The database is asked at most once in `every`, however many clients scrape.
///
/// While the database does not answer, or there is no [`Admin`] yet, `jobwright_database_up` is 0 and all else is absent: an old number would look
/// like a present one.
pub fn exporter(admin: impl Into<Later<Admin>>, every: Duration) -> Router {
    Router::new()
        .route("/metrics", get(database::metrics))
        .with_state(database::Exporter::new(admin.into(), every))
        .route("/livez", get(async || "ok\n"))
}

/// Returns `/metrics` for a service that sends jobs and runs none: `jobwright_jobs_sent_total`, which the routes of an [executor](executor()) have too.
///
/// ```no_run
/// # fn f(messages: jobwright::MessageServices) -> axum::Router {
/// axum::Router::new().nest("/jobs", jobwright_http::sender(messages.sent()))
/// # }
/// ```
pub fn sender(sent: impl Into<Later<Sent>>) -> Router {
    Router::new().route("/metrics", get(sent::metrics)).with_state(sent.into())
}

/// Serves routes until `stop` ends, and then completes the requests under way.
///
/// # Errors
/// When the listener can't be used any more.
pub async fn serve(
    listener: TcpListener,
    routes: Router,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    axum::serve(listener, routes).with_graceful_shutdown(stop).await
}
