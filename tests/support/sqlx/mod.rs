//! A schema on a PostgreSQL server, with contexts and handlers that have transactions of sqlx. Compiled for each version, which is the parent module.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use jobwright::TransactionRef;
use jobwright::admin::MigrationStatus;
use jobwright::internal::engine::Migration;
use jobwright::{DatabaseConfig, Error, JobId, MessageServices, NodeId};

use super::sqlx::postgres::PgPoolOptions;
use super::{Sqlx, services, sqlx};
use crate::support::environment::World;
use crate::support::postgres::Pg;
use crate::support::{SqlDb, TestDb};

#[derive(Debug)]
pub(crate) struct SqlxDb {
    /// What a test does past the store goes by the other driver.
    aside: Pg<false>,
    store: Sqlx,
}

impl SqlxDb {
    /// Returns the database as the other driver sees it.
    pub(crate) fn aside(&self) -> &Pg<false> {
        &self.aside
    }
}

/// Opens a pool of the application.
pub(crate) async fn pool(config: &DatabaseConfig) -> sqlx::PgPool {
    PgPoolOptions::new().max_connections(8).connect(config.url.expose()).await.unwrap()
}

async fn open(config: &DatabaseConfig) -> Sqlx {
    Sqlx::connect(pool(config).await, config).await.unwrap()
}

impl TestDb for SqlxDb {
    type Store = Sqlx;
    const HEARS_HINTS: bool = true;

    async fn create_empty() -> Option<Self> {
        let aside = Pg::<false>::create_empty().await?;
        let store = open(&aside.config()).await;
        Some(Self { aside, store })
    }

    fn store(&self) -> Sqlx {
        self.store.clone()
    }

    async fn reopen(&self) -> Sqlx {
        open(&self.aside.config()).await
    }

    async fn suspend(&self, id: JobId) {
        self.aside.suspend(id).await;
    }

    async fn restart_sequence(&self, next: i64) {
        self.aside.restart_sequence(next).await;
    }

    async fn set_counters(&self, id: JobId, version: i64, attempt: u32) {
        self.aside.set_counters(id, version, attempt).await;
    }

    async fn date_back(&self, id: JobId, by: Duration) {
        self.aside.date_back(id, by).await;
    }

    async fn end_lease(&self, node: NodeId) {
        self.aside.end_lease(node).await;
    }

    async fn make_due(&self, name: &str, at: Timestamp) {
        self.aside.make_due(name, at).await;
    }

    async fn clear(&self) {
        self.aside.clear().await;
    }
}

impl SqlDb for SqlxDb {
    const LATER: (&'static str, &'static str) = Pg::<false>::LATER;
    const NO_ENTRY: [&'static str; 2] = Pg::<false>::NO_ENTRY;

    async fn pretend_newer(&self, min_compatible: i32) {
        self.aside.pretend_newer(min_compatible).await;
    }

    async fn migrate_with(&self, more: &[Migration]) -> jobwright::Result<Vec<MigrationStatus>> {
        self.aside.migrate_with(more).await
    }

    async fn remembering(&self, keep: jobwright::Keep) -> Sqlx {
        let history = jobwright::HistoryConfig::default().keep(keep);
        open(&self.aside.config().history(history)).await
    }

    async fn spoil(&self, id: JobId) {
        self.aside.spoil(id).await;
    }

    async fn let_anything_in(&self) {
        self.aside.let_anything_in().await;
    }

    async fn change(&self, sql: &str) {
        self.aside.change(sql).await;
    }

    async fn refuse(&self, id: JobId) {
        self.aside.refuse(id).await;
    }

    async fn lose_rules(&self) {
        self.aside.lose_rules().await;
    }

    async fn age_unblocks(&self, by: Option<Duration>) {
        self.aside.age_unblocks(by).await;
    }

    async fn pass(&self, by: Duration) {
        self.aside.pass(by).await;
    }

    async fn write_ahead(&self, by: Duration) {
        self.aside.write_ahead(by).await;
    }

    async fn starts(&self) -> Vec<(String, i64)> {
        self.aside.starts().await
    }

    async fn admitted(&self) -> BTreeSet<JobId> {
        self.aside.admitted().await
    }

    async fn pretend_edited(&self) {
        self.aside.pretend_edited().await;
    }
}

impl World for SqlxDb {
    const WITH_SQLX: bool = true;

    fn config(&self) -> DatabaseConfig {
        self.aside.config()
    }

    async fn messages(&self) -> MessageServices<Sqlx> {
        let config = self.aside.config();
        services(pool(&config).await, &config).await.unwrap()
    }

    async fn create_ledger(&self) {
        self.aside.create_ledger().await;
    }

    fn note_in<'a>(
        transaction: &'a mut TransactionRef<'_, Self::Store>,
        line: &str,
    ) -> BoxFuture<'a, Result<(), Error>> {
        let line = line.to_owned();
        Box::pin(async move {
            let written = sqlx::query("insert into ledger (line) values ($1)").bind(&line);
            written.execute(&mut **transaction).await.map(drop).map_err(Error::refused)
        })
    }

    async fn ledger(&self) -> BTreeMap<String, u64> {
        self.aside.ledger().await
    }

    async fn left_alone(&self) -> Option<String> {
        self.aside.left_alone().await
    }
}
