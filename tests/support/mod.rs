//! Shared by the integration tests: databases of their own, shorthand for jobs, and deadlines.

#![allow(dead_code, reason = "the two test programs use different parts of it")]

#[macro_use]
mod cases;

pub(crate) mod certificates;
pub(crate) mod environment;
pub(crate) mod fake_clock;
pub(crate) mod jobs;
pub(crate) mod logs;
pub(crate) mod oracle;
pub(crate) mod ports;
pub(crate) mod postgres;
pub(crate) mod private_pg;
pub(crate) mod private_rabbit;
pub(crate) mod process;
pub(crate) mod proxy;
pub(crate) mod seeded_random;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
// The same files below each.
#[allow(clippy::duplicate_mod)]
pub(crate) mod sqlx_0_8;
#[allow(clippy::duplicate_mod)]
pub(crate) mod sqlx_0_9;

use std::time::{Duration, Instant};

use jiff::Timestamp;
use jobwright::Store;
use jobwright::admin::MigrationStatus;
use jobwright::internal::engine::Migration;
use jobwright::{JobId, NodeId};

pub(crate) use self::jobs::Jobs;

/// A database that belongs to one test and is removed when this value is dropped.
pub(crate) trait TestDb: Sized {
    /// The store under test.
    type Store: Store;

    /// Whether hints from one process reach another; otherwise it has to poll.
    const HEARS_HINTS: bool;

    /// Creates an empty location without a schema. `None`: this run has to do without that server.
    async fn create_empty() -> Option<Self>;

    /// Creates a location with the schema.
    async fn create() -> Option<Self> {
        let db = Self::create_empty().await?;
        db.store().engine().migrate().await.unwrap();
        Some(db)
    }

    /// Returns the store as the test opened it.
    fn store(&self) -> Self::Store;

    /// Returns the engine's side of the store.
    fn jobs(&self) -> Jobs {
        Jobs(self.store().engine())
    }

    /// Opens the same location through other connections, as another process would.
    async fn reopen(&self) -> Self::Store;

    /// Suspends a waiting job.
    async fn suspend(&self, id: JobId);

    /// Makes this the next job's `seq`.
    async fn restart_sequence(&self, next: i64);

    /// Sets counters that only long use would reach.
    async fn set_counters(&self, id: JobId, version: i64, attempt: u32);

    /// Makes a waiting or blocked job this much older.
    async fn date_back(&self, id: JobId, by: Duration);

    /// Makes the node's lease end years ago, by the clock of the database.
    async fn end_lease(&self, node: NodeId);

    /// Declares a node dead; no process answers for what it owns.
    async fn bury(&self, node: NodeId) {
        let jobs = self.jobs();
        jobs.declare(node).await;
        assert!(!jobs.heartbeat(node).await.unwrap());
    }

    /// Makes the next occurrence of a schedule due at this time.
    async fn make_due(&self, name: &str, at: Timestamp);

    /// Removes all jobs, schedules and nodes.
    async fn clear(&self);
}

/// A database that records its schema version in its own table.
pub(crate) trait SqlDb: TestDb {
    /// A change of the schema and the statement that fills in its rows: a table `later` with a row for each waiting job, ten at a time.
    const LATER: (&'static str, &'static str);

    /// Makes it impossible to record the change 2, until [`change`](Self::change) runs the second statement.
    const NO_ENTRY: [&'static str; 2];

    /// Makes the schema look as if a later build had migrated it, with a change that builds from this schema version on run with.
    async fn pretend_newer(&self, min_compatible: i32);

    /// Applies these changes behind those of this build, as a later build would.
    async fn migrate_with(&self, more: &[Migration]) -> jobwright::Result<Vec<MigrationStatus>>;

    /// Opens the same location as a process that keeps this history.
    async fn remembering(&self, keep: jobwright::Keep) -> Self::Store;

    /// Makes a waiting or blocked job unreadable, as third-party SQL could.
    async fn spoil(&self, id: JobId);

    /// Drops the constraints that keep unreadable rows out, as if rows were there from before them.
    async fn let_anything_in(&self);

    /// Runs third-party SQL; `{}` stands for the prefix of the table names.
    async fn change(&self, sql: &str);

    /// Makes every move of this job to the waiting jobs fail, and its transaction with it.
    async fn refuse(&self, id: JobId);

    /// Removes all rules, as third-party SQL could: nothing is notified.
    async fn lose_rules(&self);

    /// Makes all unblocks this much older; `None` removes them.
    async fn age_unblocks(&self, by: Option<Duration>);

    /// Lets time pass for everything but leases: due dates, times to live, periods, rates and schedules come nearer by this much.
    async fn pass(&self, by: Duration);

    /// Makes everything look as if a clock that was ahead by this much had written it, and was repaired since: past and future times all move ahead
    /// by that much.
    async fn write_ahead(&self, by: Duration);

    /// Returns the recorded starts under rates, the oldest first: their keys, and how many.
    async fn starts(&self) -> Vec<(String, i64)>;

    /// Returns the jobs that were admitted and have not ended since.
    async fn admitted(&self) -> std::collections::BTreeSet<JobId>;

    /// Makes the schema look as if a migration had been edited after it was applied.
    async fn pretend_edited(&self);
}

/// Returns the PostgreSQL server to test with; `None`: the run has to do without.
pub(crate) fn postgres_url() -> Option<String> {
    server("DATABASE_URL")
}

/// Returns a pgbouncer in transaction mode; `None`: the run has to do without.
pub(crate) fn pgbouncer_url() -> Option<String> {
    server("PGBOUNCER_URL")
}

/// Returns the PostgreSQL server behind that pgbouncer, which may be another one than the first; `None`: the run has to do without.
pub(crate) fn pgbouncer_server_url() -> Option<String> {
    server("PGBOUNCER_SERVER_URL")
}

/// Returns the RabbitMQ server for tests that do not disturb it; `None`: the run has to do without.
pub(crate) fn amqp_url() -> Option<String> {
    server("AMQP_URL")
}

/// Leaving servers out has to be requested: a test that skips itself looks like one that passed.
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

/// How long a busy machine may take for what an idle one does at once. Only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(90);

/// Polls until `holds` returns true, and fails the test if that takes longer than `deadline`, or [`PATIENCE`] if that is longer.
///
/// Polling ends as soon as the condition holds, and a slow machine only makes it take longer; a fixed wait would be too long or too short.
/// The longer it takes, the longer are the pauses, up to a fifth of a second: each question costs the processors time that other tests need.
#[track_caller]
pub(crate) fn eventually(deadline: Duration, mut holds: impl AsyncFnMut() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    let deadline = deadline.max(PATIENCE);
    async move {
        let start = Instant::now();
        while !holds().await {
            assert!(start.elapsed() < deadline, "still not true after {deadline:?}: {caller}");
            tokio::time::sleep(pause(start.elapsed())).await;
        }
    }
}

/// Returns the pause between two questions after this time of asking.
pub(crate) fn pause(waited: Duration) -> Duration {
    (waited / 20).clamp(Duration::from_millis(20), Duration::from_millis(200))
}

/// Returns a name that is used nowhere else.
pub(crate) fn unique(prefix: &str) -> String {
    format!("{prefix}{}", JobId::new().as_uuid().simple())
}
