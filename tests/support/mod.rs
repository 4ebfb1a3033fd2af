//! What the integration tests share: databases of their own, shorthand for jobs, and patience.

#![allow(dead_code, reason = "each test binary uses its own part of this")]

pub(crate) mod certificates;
pub(crate) mod chance;
pub(crate) mod faked;
pub(crate) mod jobs;
pub(crate) mod logs;
pub(crate) mod oracle;
pub(crate) mod postgres;
pub(crate) mod private_pg;
pub(crate) mod private_rabbit;
pub(crate) mod process;
pub(crate) mod proxy;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
pub(crate) mod world;

use std::time::{Duration, Instant};

use jiff::Timestamp;
use jobwright::store::Store;
use jobwright::{JobId, NodeId};

pub(crate) use self::jobs::Jobs;

/// A database that belongs to one test and is removed with this value.
pub(crate) trait TestDb: Sized {
    /// What is tested.
    type Store: Store;

    /// Whether hints of one process reach another, or it has to poll.
    const HEARS_HINTS: bool;

    /// An empty place without a schema. `None`: this run is to do without that server.
    async fn create_empty() -> Option<Self>;

    /// A place with the schema.
    async fn create() -> Option<Self> {
        let db = Self::create_empty().await?;
        db.store().jobs().migrate().await.unwrap();
        Some(db)
    }

    /// The store as the test opened it.
    fn store(&self) -> Self::Store;

    /// The engine's side of it.
    fn jobs(&self) -> Jobs {
        Jobs(self.store().jobs())
    }

    /// The same place through other connections: what another process would have.
    async fn reopen(&self) -> Self::Store;

    /// Moves a waiting job to `suspended_job`, for which there is no method yet.
    async fn suspend(&self, id: JobId);

    /// Lets the next job have this `seq`.
    async fn restart_sequence(&self, next: i64);

    /// Sets what only time could bring a job to.
    async fn set_counters(&self, id: JobId, version: i64, attempt: u32);

    /// Lets a waiting or blocked job have come so much earlier.
    async fn date_back(&self, id: JobId, by: Duration);

    /// Lets the node's lease be over for years, by the clock of the database.
    async fn end_lease(&self, node: NodeId);

    /// A node that was declared dead; nobody answers for what it owns.
    async fn bury(&self, node: NodeId) {
        let jobs = self.jobs();
        jobs.declare(node).await;
        assert!(!jobs.heartbeat(node).await.unwrap());
    }

    /// Lets the next occurrence of a schedule be at this moment.
    async fn make_due(&self, name: &str, at: Timestamp);

    /// Removes all jobs, schedules and nodes.
    async fn clear(&self);
}

/// A database whose schema is kept in a ledger of its own.
pub(crate) trait SqlDb: TestDb {
    /// Makes it look as if a later build had been here.
    async fn pretend_newer(&self);

    /// The same place as a process opens it that keeps the past.
    async fn remembering(&self, keep: jobwright::Keep) -> Self::Store;

    /// Writes into a waiting or blocked job what no job has, as somebody's own SQL could.
    async fn spoil(&self, id: JobId);

    /// Runs somebody's own SQL; `{}` stands in front of the tables' names.
    async fn change(&self, sql: &str);

    /// Lets whatever moves this job to those that wait fail, and its transaction with it.
    async fn refuse(&self, id: JobId);

    /// Removes all rules, as somebody's own SQL could: nobody is told.
    async fn lose_rules(&self);

    /// Lets all openings be so much older; `None` removes them.
    async fn age_openings(&self, by: Option<Duration>);

    /// Lets time pass for everything but leases: due dates, times to live, periods, rates and schedules come nearer by this much.
    async fn pass(&self, by: Duration);

    /// Makes everything look as if it had been written by a clock that was ahead by this much, and is right again: what happened, happens or
    /// ends then.
    async fn write_ahead(&self, by: Duration);

    /// What is kept of starts under rates, the oldest first: their keys, and how many.
    async fn starts(&self) -> Vec<(String, i64)>;

    /// The jobs that were admitted and have not ended since.
    async fn admitted(&self) -> std::collections::BTreeSet<JobId>;

    /// Makes it look as if a schema change had been edited after it was applied.
    async fn pretend_edited(&self);
}

/// The PostgreSQL server to test with; `None` if the run is to do without.
pub(crate) fn postgres_url() -> Option<String> {
    server("DATABASE_URL")
}

/// A pgbouncer in transaction mode in front of it; `None` if the run is to do without.
pub(crate) fn pgbouncer_url() -> Option<String> {
    server("PGBOUNCER_URL")
}

/// The RabbitMQ server to test with, for tests that do not disturb it; `None` if the run is to do without.
pub(crate) fn amqp_url() -> Option<String> {
    server("AMQP_URL")
}

/// Leaving servers out has to be asked for: a test that skips itself looks like one that passed.
fn server(variable: &str) -> Option<String> {
    let embedded_only = std::env::var("JOBWRIGHT_TEST_EMBEDDED_ONLY").is_ok_and(|value| value == "1");
    match std::env::var(variable) {
        _ if embedded_only => None,
        Ok(url) if !url.is_empty() => Some(url),
        _ => panic!(
            "set {variable}, or run `cargo xtask test`, or ask for the embedded store alone with \
             JOBWRIGHT_TEST_EMBEDDED_ONLY=1"
        ),
    }
}

/// How long a machine that has other work to do may take for what takes a moment on a quiet one. Only a test that fails waits that long.
const PATIENCE: Duration = Duration::from_secs(90);

/// Polls until `holds` does, and fails the test if that takes longer than `deadline`, but at least [`PATIENCE`].
///
/// It looks again and again instead of waiting a fixed time once: no slower than what it waits for, and a slow machine only
/// makes it take longer.
#[track_caller]
pub(crate) fn eventually(deadline: Duration, mut holds: impl AsyncFnMut() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    let deadline = deadline.max(PATIENCE);
    async move {
        let start = Instant::now();
        while !holds().await {
            assert!(start.elapsed() < deadline, "still not true after {deadline:?}: {caller}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// A name nobody else uses.
pub(crate) fn unique(prefix: &str) -> String {
    format!("{prefix}{}", JobId::new().as_uuid().simple())
}
