//! Commits that wait for a synchronous standby which is missing.

use std::time::{Duration, Instant};

use jobwright::{ErrorKind, MessageServices, Postgres};

use crate::support::environment::PATIENCE;
use crate::support::jobs::job;
use crate::support::postgres::Pg;
use crate::support::private_pg::PrivatePg;
use crate::support::proxy::Proxy;
use crate::support::{TestDb, eventually, postgres_url, unique};

/// The server's message when such a wait is ended.
const CANCELED: &str = "canceling wait for synchronous replication";

struct Alone {
    db: Pg<false>,
    messages: MessageServices<Postgres>,
    /// Stops last.
    server: PrivatePg,
}

impl Alone {
    async fn start(call_timeout: Duration) -> Self {
        let server = PrivatePg::start();
        let db = Pg::<false>::create_on(&server.url()).await;
        let config = db.config().call_timeout(call_timeout);
        let messages = MessageServices::postgres(&config).await.unwrap();
        let alone = Self { db, messages, server };
        alone.standby("nowhere").await;
        alone
    }

    /// Makes commits wait for this standby from now on; for none if it is empty.
    async fn standby(&self, name: &str) {
        let aside = self.db.client().await;
        aside.batch_execute("set synchronous_commit = local").await.unwrap();
        aside.batch_execute(&format!("alter system set synchronous_standby_names = '{name}'")).await.unwrap();
        aside.batch_execute("select pg_reload_conf()").await.unwrap();
        if name.is_empty() {
            return;
        }
        // The setting reaches other processes a little later: a commit that waits shows that it has.
        eventually(PATIENCE, async || {
            let probe = self.db.client().await;
            let create = format!("create table {} (n int)", unique("probe_"));
            tokio::time::timeout(Duration::from_millis(200), probe.batch_execute(&create)).await.is_err()
        })
        .await;
    }

    /// Returns how many of our connections wait for the standby.
    async fn waiting(&self) -> i64 {
        let sql = "select count(*) from pg_stat_activity where wait_event = 'SyncRep' and application_name = $1";
        self.db.client().await.query_one(sql, &[&self.db.schema()]).await.unwrap().get(0)
    }

    async fn cancel_waiting(&self) {
        let sql = "select count(pg_cancel_backend(pid)) from pg_stat_activity
                   where wait_event = 'SyncRep' and application_name = $1";
        self.db.client().await.query_one(sql, &[&self.db.schema()]).await.unwrap();
    }
}

/// An operator cancels the wait: the commit is durable on this server only, less than was requested.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_wait_for_the_standby_was_cancelled_is_unknown() {
    if postgres_url().is_none() {
        return;
    }
    let alone = Alone::start(Duration::from_secs(30)).await;
    let ends = async |sending: tokio::task::JoinHandle<jobwright::Result<()>>| {
        eventually(PATIENCE, async || alone.waiting().await > 0).await;
        alone.cancel_waiting().await;
        let error = sending.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CommitUnknown, "{error}");
        assert!(error.to_string().contains("standby"), "{error}");
    };
    // A context's transaction.
    let messages = alone.messages.clone();
    ends(tokio::spawn(async move {
        let mut cx = messages.begin();
        cx.send(job())?;
        cx.transaction().await?;
        cx.commit().await.map(drop)
    }))
    .await;
    // A statement that commits alone.
    let messages = alone.messages.clone();
    ends(tokio::spawn(async move { messages.send(job()).await.map(drop) })).await;
    // A statement of the engine.
    let jobs = alone.db.jobs();
    let messages = alone.messages.clone();
    ends(tokio::spawn(async move {
        let node = crate::support::jobs::node_info("alone");
        messages.engine().register_node(&node).await.map(drop)
    }))
    .await;
    assert_eq!(jobs.all().await.len(), 2);
    // So that the schema can be dropped.
    alone.standby("").await;
}

/// The answer gets lost, and with it the warning: the server's knowledge of the commit proves nothing about the standby.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_is_no_success_while_the_standby_is_away() {
    if postgres_url().is_none() {
        return;
    }
    let alone = Alone::start(Duration::from_secs(4)).await;
    let proxy = Proxy::start(alone.db.address()).await;
    let config = alone.db.config_by(proxy.address).call_timeout(Duration::from_secs(4));
    let messages = MessageServices::postgres(&config).await.unwrap();
    let mut cx = messages.begin();
    cx.send(job()).unwrap();
    cx.transaction().await.unwrap();
    proxy.swallow_answer_to("; commit");
    let committing = tokio::spawn(cx.commit());
    eventually(PATIENCE, async || alone.waiting().await > 0).await;
    alone.cancel_waiting().await;
    let error = committing.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommitUnknown, "{error}");
    alone.standby("").await;
}

/// A commit that may be in progress is not cancelled at its deadline, since that could leave it on this server only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_may_be_committing_is_never_cancelled() {
    if postgres_url().is_none() {
        return;
    }
    let alone = Alone::start(Duration::from_secs(1)).await;
    let error = alone.messages.send(job()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommitUnknown, "{error}");
    let mut cx = alone.messages.begin();
    cx.send(job()).unwrap();
    cx.transaction().await.unwrap();
    let error = cx.commit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommitUnknown, "{error}");
    alone.messages.engine().register_node(&crate::support::jobs::node_info("alone")).await.unwrap_err();
    // Neither when the caller goes away.
    let gone = tokio::spawn({
        let messages = alone.messages.clone();
        async move { messages.send(job()).await.map(drop) }
    });
    eventually(PATIENCE, async || alone.waiting().await >= 4).await;
    gone.abort();
    // For longer than a cancel request takes to arrive.
    let watched = Instant::now();
    while watched.elapsed() < Duration::from_secs(3) {
        assert!(alone.waiting().await >= 4, "{}", alone.server.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // The standby is given up: waiting commits succeed.
    alone.standby("").await;
    eventually(PATIENCE, async || alone.db.jobs().all().await.len() == 3).await;
    assert!(!alone.server.log().contains(CANCELED), "{}", alone.server.log());
}
