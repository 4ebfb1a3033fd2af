//! A worker whose transaction stays open holds up nobody: no other worker, and not the engine.

use std::time::Duration;

use jobwright::Unique;
use jobwright::admin::{JobFilter, JobState, Rule, Scope};
use tokio::time::timeout;

use super::{Site, accepted, call, read, take};
use crate::support::TestDb;
use crate::support::jobs::{job, jobs};

/// Far below the deadline of a call, and far above the time of one that waits for nothing.
const SOON: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_take_that_is_not_committed() {
    let Some(site) = Site::create().await else { return };
    let sent = site.jobs.send_all(jobs(6)).await;
    site.worker.batch_execute("begin").await.unwrap();
    assert_eq!(site.take("2").await.len(), 2);
    let other = site.db.client().await;
    // Also under the same name, which is new to both.
    let rows = timeout(SOON, take(&other, "2")).await.expect("it waited").unwrap();
    assert_eq!(rows.iter().map(|row| read(row).id()).collect::<Vec<_>>(), sent[2..4]);
    let node = site.jobs.node().await;
    let claimed = timeout(SOON, site.jobs.take(node, 9)).await.expect("the claim waited");
    assert_eq!(claimed.len(), 2);
    timeout(SOON, site.jobs.expire_external(9)).await.expect("it waited").unwrap();
    site.worker.batch_execute("rollback").await.unwrap();
    assert_eq!(site.jobs.count(JobState::Waiting).await, 2, "they were never taken");
    assert_eq!(site.jobs.detail(sent[0]).await.summary.attempt, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_that_is_not_committed() {
    let Some(site) = Site::create().await else { return };
    site.jobs.send_all([job().exclusive("g"), job().exclusive("g"), job().exclusive("h")]).await;
    site.jobs.admit_all().await;
    let taken: Vec<_> = site.take("9, interval '1 second'").await.iter().map(read).collect();
    assert_eq!(taken.len(), 2);
    site.worker.batch_execute("begin").await.unwrap();
    accepted(&site.worker, "done", taken[0], "").await;
    let other = site.db.client().await;
    // The thread that extends leases goes on with the other jobs, and keeps this one out of what it reports as lost.
    let (ids, tokens): (Vec<_>, Vec<_>) = taken.iter().map(|taken| (taken.id, taken.token)).unzip();
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&ids, &tokens];
    let extend = other.query("select state from extend_many($1, $2, '1 second')", &values);
    let states = timeout(SOON, extend).await.expect("it waited").unwrap();
    assert_eq!(states.iter().map(|row| row.get(0)).collect::<Vec<&str>>(), ["ending", "held"]);
    assert_eq!(
        timeout(SOON, call(&other, "progress", taken[1], ", 1")).await.expect("it waited"),
        Ok(Some("true".to_owned()))
    );
    // Leases that end, admission, claims and an operator's look.
    crate::support::eventually(Duration::from_secs(20), async || {
        timeout(SOON, site.jobs.expire_external(9)).await.expect("it waited").unwrap().waiting == 1
    })
    .await;
    timeout(SOON, site.jobs.admit_all()).await.expect("it waited");
    let node = site.jobs.node().await;
    assert_eq!(timeout(SOON, site.jobs.take(node, 9)).await.expect("it waited").len(), 1);
    timeout(SOON, site.jobs.find(&JobFilter::default())).await.expect("it waited");
    site.worker.batch_execute("commit").await.unwrap();
    assert_eq!(site.jobs.state(taken[0].id()).await, None);
    assert_eq!(site.take("9").await.len(), 1, "the next of its group");
}

/// What a worker may write itself must not free what others hold: any role can set these.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_the_caller_change_nothing() {
    let Some(site) = Site::create().await else { return };
    site.jobs.send_all([job().exclusive("g"), job().exclusive("g")]).await;
    site.jobs.admit_all().await;
    let taken = site.take("1").await.iter().map(read).collect::<Vec<_>>().remove(0);
    site.jobs.cancel(&JobFilter::ids([taken.id()]), false).await.unwrap();
    let holder: uuid::Uuid = site.worker.query_one("select holder from terminating_handler", &[]).await.unwrap().get(0);
    site.worker
        .batch_execute(&format!(
            "set jobwright.ended = '{{{holder}}}'; set jobwright.released = 'yes'; set lock_timeout = '1ms'"
        ))
        .await
        .unwrap();
    site.jobs.send(job()).await;
    let plain = site.take("1").await.iter().map(read).collect::<Vec<_>>().remove(0);
    accepted(&site.worker, "done", plain, "").await;
    assert_eq!(site.jobs.admit_all().await, 0, "the group is still taken");
    let left: String = site.worker.query_one("select current_setting('jobwright.released')", &[]).await.unwrap().get(0);
    assert_eq!(left, "yes", "the caller's own settings are as they were");
}

/// Two processes that share a worker's name share nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_a_pooler_that_gives_each_transaction_another_session() {
    let (Some(db), Some(pooler)) =
        (crate::support::postgres::Pg::<true>::create().await, crate::support::pgbouncer_url())
    else {
        return;
    };
    let schema = db.schema().to_owned();
    db.jobs().send_all(jobs(40)).await;
    let mut ended = 0;
    let connect = async || {
        let (client, connection) = tokio_postgres::connect(&pooler, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    };
    let (one, other) = (connect().await, connect().await);
    while ended < 40 {
        let texts =
            one.simple_query(&format!("select id, token from {schema}.take('default', 'test', 7)")).await.unwrap();
        for message in texts {
            let tokio_postgres::SimpleQueryMessage::Row(row) = message else { continue };
            let (id, token) = (row.get(0).unwrap(), row.get(1).unwrap());
            let done = format!("begin; select {schema}.done('{id}', '{token}'); commit");
            other.simple_query(&done).await.unwrap();
            ended += 1;
        }
    }
    assert_eq!(db.jobs().all().await.len(), 0);
}

/// A change of a rule, which admission passes wait for, does not wait for a worker.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_is_set_beside_an_open_end() {
    let Some(site) = Site::create().await else { return };
    site.jobs.put_rule(&Rule::new(Scope::Queue, "default").running(3)).await.unwrap();
    site.jobs.send_all(jobs(4)).await;
    assert_eq!(site.jobs.admit_all().await, 3);
    let taken: Vec<_> = site.take("2").await.iter().map(read).collect();
    assert_eq!(taken.len(), 2);
    site.worker.batch_execute("begin").await.unwrap();
    accepted(&site.worker, "done", taken[0], "").await;
    // The third is locked too, by one that takes it and does not commit.
    let other = site.db.client().await;
    other.batch_execute("begin").await.unwrap();
    assert_eq!(take(&other, "1").await.unwrap().len(), 1);
    for limit in [2, 1] {
        let rule = Rule::new(Scope::Queue, "default").running(limit);
        timeout(SOON, site.jobs.put_rule(&rule)).await.expect("it waited").unwrap();
        timeout(SOON, site.jobs.admit_all()).await.expect("it waited");
    }
    site.worker.batch_execute("commit").await.unwrap();
    other.batch_execute("rollback").await.unwrap();
    // What is still out counts.
    assert_eq!(site.jobs.admit_all().await, 0);
}

/// A sender of the unique key of a job that is just being ended: it gets an answer at once, whichever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_of_the_same_unique_key() {
    let Some(site) = Site::create().await else { return };
    let taken = site.taken(job().unique(Unique::key("u"))).await;
    site.worker.batch_execute("begin").await.unwrap();
    accepted(&site.worker, "done", taken, "").await;
    let client = site.db.client().await;
    let send = async || {
        let row = timeout(SOON, client.query_one("select send('kind', '{}', unique_key => 'u')", &[])).await;
        row.expect("it waited").unwrap().get::<_, uuid::Uuid>(0)
    };
    assert_eq!(send().await, taken.id, "it is not done yet");
    site.worker.batch_execute("commit").await.unwrap();
    assert_ne!(send().await, taken.id);
}

/// Cancelling waits for a transaction that is just ending the job, but not for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_of_a_job_that_is_being_ended() {
    let Some(site) = Site::create().await else { return };
    let taken = site.taken(job()).await;
    site.worker.batch_execute("begin").await.unwrap();
    accepted(&site.worker, "done", taken, "").await;
    let client = site.db.client().await;
    let error = timeout(SOON, client.query("select cancel($1)", &[&taken.id])).await.expect("it waited").unwrap_err();
    let (state, message) = super::told(&error);
    assert!(state == "55P03" && message.contains("just ending it"), "{message}");
    site.worker.batch_execute("commit").await.unwrap();
}
