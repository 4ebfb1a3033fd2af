//! Nodes that stop while the database or the broker has not answered yet: what is recorded is acked and counted, and what is published is not
//! published again.

use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt as _;
use jobwright::{CommandExecutor, ExecutorStats, JobId};

use crate::delivery::external::{Paint, lease};
use crate::delivery::frames::{Confirms, Frames};
use crate::delivery::site::{Site, noting};
use crate::delivery::undecided::plain;
use crate::support::TestDb as _;
use crate::support::environment::{PATIENCE, patient};
use crate::support::eventually;
use crate::support::postgres::{Held, Pg};

/// Makes the commits of transactions that add or remove rows of this table wait for a lock, and takes it.
async fn hold_commits(db: &Pg<false>, table: &str) -> Held {
    db.raw(&format!(
        "create table {{schema}}.hold ();
         create function {{schema}}.wait() returns trigger language plpgsql as
             $$ begin lock table {{schema}}.hold in share mode; return null; end $$;
         create constraint trigger wait after insert or delete on {{schema}}.{table} deferrable initially deferred
             for each row execute function {{schema}}.wait()"
    ))
    .await;
    db.hold("lock table {schema}.hold in exclusive mode").await
}

/// Stops an executor while a commit waits, and then lets that go on.
async fn stop_during_commit(executor: CommandExecutor, held: Held) -> ExecutorStats {
    eventually(PATIENCE, async || held.waiter().await.is_some()).await;
    let mut stopped = pin!(executor.shutdown(Duration::ZERO));
    // The first poll tells all tasks.
    assert!(stopped.as_mut().now_or_never().is_none(), "it does not wait for the commit");
    held.release().await;
    stopped.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_whose_commit_is_under_way_is_counted_and_acked() {
    let Some(paint_shop) = Paint::open(lease(60)).await else { return };
    let mut tap = paint_shop.tap(1).await;
    let id = paint_shop.send(1).await;
    let message = tap.next().await;
    tap.ack(&message).await;
    let held = hold_commits(&paint_shop.site.db, "external_job").await;
    paint_shop.report(&message, "done", &[]).await;
    let Paint { site, executor, client, .. } = paint_shop;
    let stats = stop_during_commit(executor, held).await;
    assert_eq!((stats.reported, stats.reports_refused), (1, 0));
    assert_eq!(site.db.jobs().state(id).await, None);
    eventually(PATIENCE, async || client.waiting(&site.names().reply()).await == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_whose_commit_is_under_way_is_counted_and_acked() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let messages = site.messages().await;
    messages.broker().unwrap().apply(&[], &[]).await.unwrap();
    let executor = noting::<Pg<false>>(&messages, patient(), 10).await;
    let client = site.client().await;
    let held = hold_commits(&site.db, "job").await;
    let id = JobId::new();
    client.publish_all(&site.names().submit(), vec![(plain(id), b"{}".to_vec())]).await;
    let stats = stop_during_commit(executor, held).await;
    assert_eq!(stats.submitted, 1);
    assert!(site.db.jobs().state(id).await.is_some());
    eventually(PATIENCE, async || client.waiting(&site.names().submit()).await == 0).await;
}

/// The broker has an event, and its confirm is late: another node must not publish it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_whose_confirm_is_under_way_is_not_left_to_others() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let frames = Frames::start(site.address()).await;
    let messages = site.messages_with(&site.broker_by(frames.address)).await;
    messages.broker().unwrap().up_within(PATIENCE).await.unwrap();
    messages.broker().unwrap().apply(&[], &[]).await.unwrap();
    let client = site.client().await;
    let heard = client.listen(&site.names().events(), "#").await;
    let executor =
        CommandExecutor::builder(messages.clone()).config(patient()).without_handlers().start().await.unwrap();
    frames.confirms(Confirms::Held);
    messages.send(jobwright::NewJob::event("paid", &1)).await.unwrap();
    assert_eq!(client.take(&heard).await.text(), "1");
    let mut stopped = pin!(executor.shutdown(Duration::ZERO));
    assert!(stopped.as_mut().now_or_never().is_none(), "it does not wait for the confirm");
    frames.confirms(Confirms::Pass);
    let stats = stopped.await.unwrap();
    assert_eq!((stats.relayed, site.db.jobs().all().await.len()), (1, 0));
}
