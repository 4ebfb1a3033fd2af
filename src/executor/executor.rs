//! The handle on a running executor.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorKind, Result};
use crate::executor::lifecycle::settings::Settings;
use crate::executor::lifecycle::supervise::supervise;
use crate::executor::lifecycle::vitals::Vitals;
use crate::executor::maintenance::kinds;
use crate::executor::metrics::stats::ExecutorStats;
use crate::executor::node::in_flight::InFlight;
use crate::executor::telemetry::Telemetry;
use crate::message::MessageServices;
use crate::store::Store;

/// A running executor.
///
/// Dropping it stops it at once: handlers are cancelled and their jobs are released in the background. [`shutdown`](Self::shutdown) stops
/// it gracefully.
///
/// ```compile_fail
/// # #![deny(unused_must_use)]
/// # async fn f(builder: jobwright::ExecutorBuilder) -> jobwright::Result<()> {
/// builder.start().await?; // error: dropping an executor stops it
/// # Ok(()) }
/// ```
#[must_use = "dropping an executor stops it"]
pub struct CommandExecutor<S: Store = crate::Postgres> {
    settings: Arc<Settings>,
    messages: MessageServices<S>,
    stop: CancellationToken,
    current: Arc<Mutex<Arc<InFlight>>>,
    supervisor: Option<JoinHandle<Result<()>>>,
    /// Cancelled when the supervisor has ended.
    ended: CancellationToken,
}

impl<S: Store> CommandExecutor<S> {
    pub(crate) async fn start(settings: Settings, messages: MessageServices<S>) -> Result<Self> {
        crate::store::check_schema(&*settings.store).await?;
        kinds::check_all(&settings.breakers).await;
        let settings = Arc::new(settings);
        let registered = settings.register().await?;
        let stop = CancellationToken::new();
        let current = Arc::new(Mutex::new(Arc::default()));
        let ended = CancellationToken::new();
        let over = End { ended: ended.clone(), stop: stop.clone(), vitals: settings.vitals.clone() };
        let run = supervise(settings.clone(), registered, stop.clone(), current.clone());
        let supervisor = tokio::spawn(async move {
            let _over = over;
            run.await
        });
        // Before anything is awaited: if this future is dropped, so is the executor, which stops it.
        let executor = Self { settings, messages, stop, current, supervisor: Some(supervisor), ended };
        let patience = executor.settings.call_timeout;
        tokio::select! {
            () = executor.settings.vitals.until_open() => {}
            () = executor.ended.cancelled() => {
                executor.shutdown(Duration::ZERO).await?;
                return Err(Error::new(ErrorKind::Database, "the executor ended while it started"));
            }
            () = tokio::time::sleep(patience) => {
                tracing::warn!(?patience, "the lease of the new executor is not renewed yet: it runs no job before that");
            }
        }
        Ok(executor)
    }

    /// Returns what the executor has done so far.
    pub fn stats(&self) -> ExecutorStats {
        let in_flight = self.current.lock().unwrap_or_else(PoisonError::into_inner).len();
        self.settings.counters.snapshot(in_flight)
    }

    /// Returns a handle for metrics and probes, which may outlive this one. It keeps the connections to the database, as the executor does.
    pub fn telemetry(&self) -> Telemetry {
        Telemetry { settings: self.settings.clone(), stop: self.stop.clone(), current: self.current.clone() }
    }

    /// Returns the kinds that this node leaves alone at the moment, because it can't run them ([`RetryAdvice::NotHere`]), with the reason
    /// and since when that is so.
    ///
    /// [`RetryAdvice::NotHere`]: crate::RetryAdvice::NotHere
    pub fn left_alone(&self) -> BTreeMap<String, (String, Instant)> {
        self.settings.breakers.left_alone()
    }

    /// Waits until the executor has ended without being stopped; [`shutdown`](Self::shutdown) then returns the reason.
    ///
    /// It goes on through outages, lost leases and failovers. It ends only when its database is gone: the file of an embedded one was moved
    /// or replaced ([`Replaced`](ErrorKind::Replaced)). Its handlers were cancelled then.
    ///
    /// A program that does not wait for this may keep an executor that does nothing. The future may be dropped at any time.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Stops claiming, waits up to `grace` for running handlers, and cancels those that remain. Releases unfinished jobs without costing them an attempt.
    ///
    /// # Errors
    /// Returns the reason when the executor had already [ended](Self::ended). Fails when the executor's own task died; its jobs are then
    /// released when its lease ends.
    pub async fn shutdown(mut self, grace: Duration) -> Result<ExecutorStats> {
        *self.settings.grace.lock().unwrap_or_else(PoisonError::into_inner) = grace;
        self.stop.cancel();
        if let Some(supervisor) = self.supervisor.take() {
            supervisor
                .await
                .map_err(|e| Error::new(ErrorKind::Database, "the executor did not end cleanly").with_source(e))??;
        }
        Ok(self.stats())
    }
}

/// Reports the end of the supervisor when it is dropped, however the task ends.
struct End {
    ended: CancellationToken,
    stop: CancellationToken,
    vitals: Arc<Vitals>,
}

impl Drop for End {
    fn drop(&mut self) {
        if !self.stop.is_cancelled() {
            self.vitals.gone();
        }
        self.ended.cancel();
    }
}

impl<S: Store> Drop for CommandExecutor<S> {
    fn drop(&mut self) {
        if self.supervisor.is_some() {
            *self.settings.grace.lock().unwrap_or_else(PoisonError::into_inner) = Duration::ZERO;
            self.stop.cancel();
        }
    }
}

impl<S: Store> fmt::Debug for CommandExecutor<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandExecutor")
            .field("messages", &self.messages)
            .field("has_ended", &self.ended.is_cancelled())
            .finish_non_exhaustive()
    }
}
