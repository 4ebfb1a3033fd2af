//! Executors and contexts on their own database, and a ledger that shows which effects were committed.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jobwright::admin::JobState;
use jobwright::internal::engine::UnitOfWork;
use jobwright::{
    DatabaseConfig, Error, ExecutorConfig, JobContext, JobError, JobId, KindOptions, MessageServices, Outcome,
    RetryPolicy,
};
use jobwright::{Store, TransactionRef};

use super::postgres::Pg;
#[cfg(feature = "sqlite")]
use super::sqlite::SqliteDb;
use super::{TestDb, eventually};

/// Longer than anything takes unless it is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

type Transaction<W> = <<W as TestDb>::Store as Store>::Transaction;

/// A database on which whole executors run.
pub(crate) trait World: TestDb + Send + Sync + 'static {
    /// Whether handlers have transactions of sqlx.
    const WITH_SQLX: bool = false;

    /// Returns the configuration to connect with.
    fn config(&self) -> DatabaseConfig;

    /// Returns what one process has: its own connections, and no wake-ups from other processes except through the database.
    async fn messages(&self) -> MessageServices<Self::Store>;

    /// Creates the table `ledger`.
    async fn create_ledger(&self);

    /// Writes a line of the ledger. The ledger has no unique constraint: duplicates are what tests look for.
    fn note<'t>(transaction: &'t mut Transaction<Self>, line: &str) -> BoxFuture<'t, Result<(), JobError>> {
        let line = line.to_owned();
        Box::pin(async move { Ok(Self::note_in(&mut transaction.lend(), &line).await?) })
    }

    /// Writes a line of the ledger through a borrowed transaction.
    fn note_in<'a>(
        transaction: &'a mut TransactionRef<'_, Self::Store>,
        line: &str,
    ) -> BoxFuture<'a, Result<(), Error>>;

    /// Returns how often each line is in the ledger.
    async fn ledger(&self) -> BTreeMap<String, u64>;

    /// Returns what the row of the only node says of kinds that it leaves alone.
    async fn left_alone(&self) -> Option<String>;

    /// Creates a database with a ledger.
    async fn with_ledger() -> Option<Self> {
        let db = Self::create().await?;
        db.create_ledger().await;
        Some(db)
    }

    /// Waits until no job is left in any state.
    async fn drained(&self) {
        let jobs = self.jobs();
        eventually(PATIENCE, async || jobs.all().await.is_empty()).await;
    }

    /// Waits until this many jobs are in this state.
    async fn counts(&self, state: JobState, count: usize) {
        let jobs = self.jobs();
        eventually(PATIENCE, async || jobs.count(state).await == count).await;
    }

    /// Waits until a job is in this state.
    async fn reaches(&self, id: JobId, state: JobState) {
        let jobs = self.jobs();
        eventually(PATIENCE, async || jobs.state(id).await == Some(state)).await;
    }

    /// Waits until a job is gone.
    async fn gone(&self, id: JobId) {
        let jobs = self.jobs();
        eventually(PATIENCE, async || jobs.state(id).await.is_none()).await;
    }

    /// Asserts that each of these jobs took effect exactly once, and nothing else did.
    async fn each_once(&self, ids: &[JobId]) {
        let ledger = self.ledger().await;
        let twice: Vec<_> = ledger.iter().filter(|(_, times)| **times != 1).collect();
        assert!(twice.is_empty(), "took effect more than once: {twice:?}");
        let missing: Vec<_> = ids.iter().filter(|id| !ledger.contains_key(&id.to_string())).collect();
        assert!(missing.is_empty(), "{} took no effect: {missing:?}", missing.len());
        assert_eq!(ledger.len(), ids.len(), "took effect without being sent");
    }
}

impl World for Pg<false> {
    fn config(&self) -> DatabaseConfig {
        Pg::config(self)
    }

    async fn messages(&self) -> MessageServices {
        MessageServices::postgres(&Pg::config(self)).await.unwrap()
    }

    async fn create_ledger(&self) {
        self.raw("create table {schema}.ledger (line text not null)").await;
    }

    fn note_in<'a>(
        transaction: &'a mut TransactionRef<'_, Self::Store>,
        line: &str,
    ) -> BoxFuture<'a, Result<(), Error>> {
        let line = line.to_owned();
        Box::pin(async move {
            let written = transaction.execute("insert into ledger (line) values ($1)", &[&line]).await;
            written.map(drop).map_err(Error::refused)
        })
    }

    async fn ledger(&self) -> BTreeMap<String, u64> {
        let lines = "select line, count(*) from ledger group by line";
        // The connection is kept, since tests ask often. It may be one to a server that has crashed since.
        let rows = match self.aside().await.query(lines, &[]).await {
            Ok(rows) => rows,
            Err(_) => self.client().await.query(lines, &[]).await.unwrap(),
        };
        rows.iter().map(|row| (row.get(0), row.get::<_, i64>(1).unsigned_abs())).collect()
    }

    async fn left_alone(&self) -> Option<String> {
        self.aside().await.query_one("select left_alone::text from node", &[]).await.unwrap().get(0)
    }
}

#[cfg(feature = "sqlite")]
impl World for SqliteDb {
    fn config(&self) -> DatabaseConfig {
        SqliteDb::config(self)
    }

    async fn messages(&self) -> MessageServices<jobwright::Sqlite> {
        MessageServices::sqlite(&SqliteDb::config(self)).await.unwrap()
    }

    async fn create_ledger(&self) {
        self.connection().execute_batch("create table ledger (line text not null)").unwrap();
    }

    fn note_in<'a>(
        transaction: &'a mut TransactionRef<'_, Self::Store>,
        line: &str,
    ) -> BoxFuture<'a, Result<(), Error>> {
        let line = line.to_owned();
        Box::pin(async move { transaction.execute("insert into ledger (line) values (?1)", [line]).await.map(drop) })
    }

    async fn ledger(&self) -> BTreeMap<String, u64> {
        let connection = self.connection();
        let mut query = connection.prepare("select line, count(*) from ledger group by line").unwrap();
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()))).unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    }

    async fn left_alone(&self) -> Option<String> {
        self.connection().query_row("select left_alone from jobwright_node", [], |row| row.get(0)).unwrap()
    }
}

/// Configures an executor that polls often enough for a test, and whose death is noticed soon.
pub(crate) fn quick() -> ExecutorConfig {
    // Long enough to be kept on a machine that is busy with other tests, and short enough to wait for.
    lease(4).poll_interval(Duration::from_millis(100))
}

/// Configures an executor that polls only when it is woken.
pub(crate) fn patient() -> ExecutorConfig {
    lease(30).poll_interval(Duration::from_secs(3600))
}

/// Configures a lease of this many seconds and no quarantine: when a test kills a node, its jobs are not to blame.
pub(crate) fn lease(seconds: u64) -> ExecutorConfig {
    ExecutorConfig::default().lease(Duration::from_secs(seconds)).quarantine_after(0)
}

/// Options of kinds that are retried at once.
pub(crate) fn at_once() -> KindOptions {
    KindOptions::default().retry(RetryPolicy::Fixed(Duration::ZERO))
}

/// A latch at which handlers wait until a test opens it.
#[derive(Clone, Debug)]
pub(crate) struct Gate(tokio::sync::watch::Sender<bool>);

impl Gate {
    pub(crate) fn closed() -> Self {
        Self(tokio::sync::watch::Sender::new(false))
    }

    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }

    /// Waits until `count` handlers wait at the latch.
    pub(crate) async fn waiting(&self, count: usize) {
        eventually(PATIENCE, async || self.0.receiver_count() >= count).await;
    }

    pub(crate) fn nobody_waits(&self) -> bool {
        self.0.receiver_count() == 0
    }

    pub(crate) async fn pass(&self) {
        let mut open = self.0.subscribe();
        let _ = open.wait_for(|open| *open).await;
    }
}

/// Returns a handler that waits at the latch, and then notes its job's id in its own transaction.
pub(crate) fn noting_behind<W: World>(
    gate: &Gate,
) -> impl for<'b> Fn(&'b mut JobContext<'_, (), W::Store>) -> BoxFuture<'b, Result<Outcome, JobError>> + Send + Sync + 'static
{
    let gate = gate.clone();
    move |cx| {
        let gate = gate.clone();
        Box::pin(async move {
            gate.pass().await;
            let line = cx.job().id.to_string();
            W::note(cx.transaction().await?, &line).await?;
            Ok(Outcome::Done)
        })
    }
}
