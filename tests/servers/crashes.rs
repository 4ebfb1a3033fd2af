//! A server that crashes in the middle of a commit.

use jobwright::{ErrorKind, MessageServices, Postgres};
use tokio::task::JoinHandle;

use crate::support::environment::PATIENCE;
use crate::support::jobs::job;
use crate::support::postgres::Pg;
use crate::support::private_pg::PrivatePg;
use crate::support::proxy::Proxy;
use crate::support::{TestDb, eventually, postgres_url};

/// Data that no commit flushes stays in memory as long as possible, so that a crash loses it.
const LAZY: &[&str] = &["wal_level = minimal", "max_wal_senders = 0", "wal_writer_delay = 10s", "autovacuum = off"];

/// A sender behind a proxy, which is down from the crash until the events that the sender must not see are over.
struct Site {
    db: Pg<false>,
    messages: MessageServices<Postgres>,
    proxy: Proxy,
    /// Stops last.
    server: PrivatePg,
}

impl Site {
    async fn start() -> Self {
        let server = PrivatePg::start_with(LAZY, &[]);
        let db = Pg::<false>::create_on(&server.url()).await;
        db.raw("create table {schema}.other (n int)").await;
        let proxy = Proxy::start(db.address()).await;
        let config = db.config_by(proxy.address).call_timeout(PATIENCE);
        let messages = MessageServices::postgres(&config).await.unwrap();
        Self { db, messages, proxy, server }
    }

    fn committing(&self) -> JoinHandle<jobwright::Result<()>> {
        let messages = self.messages.clone();
        tokio::spawn(async move {
            let mut cx = messages.begin();
            cx.send(job())?;
            cx.transaction().await?;
            cx.commit().await.map(drop)
        })
    }

    fn crash(&self) {
        self.proxy.down();
        self.server.crash_and_restart();
    }
}

/// COMMIT has arrived, and nothing of the transaction is on disk when the server crashes. Its number is used again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_a_crash_undid_is_no_success_when_another_has_its_number() {
    if postgres_url().is_none() {
        return;
    }
    let site = Site::start().await;
    let Site { db, proxy, .. } = &site;
    db.raw(
        "create function {schema}.at_the_gate() returns trigger language plpgsql as $$
         begin perform pg_advisory_xact_lock_shared(1); return null; end $$;
         create constraint trigger at_the_gate after insert on {schema}.job deferrable initially deferred
         for each row execute function {schema}.at_the_gate()",
    )
    .await;
    // It may be on disk after all, because the server writes regularly: then this try proves nothing.
    for _ in 0..5 {
        let gate = db.hold("select pg_advisory_xact_lock(1)").await;
        let committing = site.committing();
        eventually(PATIENCE, async || {
            assert!(!committing.is_finished(), "it did not come to the gate");
            gate.waiting().await == 1
        })
        .await;
        let taken = "select backend_xid::text::bigint from pg_stat_activity where backend_xid is not null";
        let number: i64 = db.client().await.query_one(taken, &[]).await.unwrap().get(0);
        site.crash();
        let again = given_out_again(db, number).await;
        proxy.heal();
        let ended = committing.await.unwrap();
        if again {
            let error = ended.expect_err("another's commit was taken for this one");
            assert_eq!(error.kind(), ErrorKind::CommitUnknown, "{error}");
            assert_eq!(db.jobs().all().await.len(), 0);
            return;
        }
    }
    panic!("the number was never given out again");
}

/// Commits other transactions until one of them gets this number.
async fn given_out_again(db: &Pg<false>, number: i64) -> bool {
    let client = db.client().await;
    let mut given = 0;
    while given < number {
        client.batch_execute("begin; insert into other values (1)").await.unwrap();
        given = client.query_one("select pg_current_xact_id()::text::bigint", &[]).await.unwrap().get(0);
        client.batch_execute("commit").await.unwrap();
    }
    given == number
}

/// The reverse: it is on disk, and its job proves it, though the connection that could confirm it is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_survived_a_crash_is_a_success() {
    if postgres_url().is_none() {
        return;
    }
    let site = Site::start().await;
    let Site { db, proxy, .. } = &site;
    proxy.swallow_answer_to("; commit");
    let committing = site.committing();
    let jobs = db.jobs();
    eventually(PATIENCE, async || {
        assert!(!committing.is_finished());
        jobs.all().await.len() == 1
    })
    .await;
    site.crash();
    proxy.heal();
    committing.await.unwrap().unwrap();
    assert_eq!(jobs.all().await.len(), 1);
}
