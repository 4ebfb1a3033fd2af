//! Queues and jobs that were this executor's, and are no more.

use std::num::NonZeroU32;

use jobwright::CommandExecutor;
use jobwright::admin::JobState;

use crate::delivery::external::{lease, paint};
use crate::delivery::site::{Site, note, noting, send};
use crate::support::environment::{PATIENCE, quick};
use crate::support::postgres::Pg;
use crate::support::proxy::Proxy;
use crate::support::{TestDb, eventually};

const OTHER: &str = "22222222-bbbb-4000-8000-000000000002";

/// The mark at the broker was given to another installation while an executor ran. It goes on by the table, after a lost lease too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executor_whose_queues_are_anothers_works_on() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let proxy = Proxy::start(site.address()).await;
    let messages = site.messages_with(&site.broker_by(proxy.address)).await;
    let broker = messages.broker().unwrap();
    broker.up_within(PATIENCE).await.unwrap();
    let executor = noting::<Pg<false>>(&messages, quick(), 5).await;

    let other = site.messages().await;
    other.broker().unwrap().claim(OTHER, true).await.unwrap();
    proxy.cut();
    eventually(PATIENCE, async || format!("{:?}", broker.mode()).contains("belong to")).await;
    let jobs = site.db.jobs();
    let [heartbeat] = &jobs.node_heartbeats().await.unwrap()[..] else { panic!("more than one node") };
    jobs.evict(heartbeat.node, Some("ann")).await.unwrap().unwrap();
    eventually(PATIENCE, async || executor.stats().leases_lost == 1).await;

    let ids = send(&messages, 3, note).await;
    site.settled(&ids).await;
    assert!(!broker.is_up());
    executor.shutdown(PATIENCE).await.unwrap();
    // Whoever starts now is told.
    let refused = CommandExecutor::builder(messages.clone()).config(quick()).without_handlers().start().await;
    assert_eq!(refused.unwrap_err().code(), "JW-INSTALLATION");
    let own = jobs.installation().await.unwrap().unwrap().id.unwrap();
    other.broker().unwrap().claim(&own, true).await.unwrap();
}

/// Their process died while they ran, and now they are for external workers, who can kill no process of this one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspects_of_a_queue_that_is_handed_out_now() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    site.uses("paint");
    let messages = site.messages().await;
    messages.broker().unwrap().apply(&[], &["paint".to_owned()]).await.unwrap();
    let (jobs, id) = (site.db.jobs(), messages.send(paint(1)).await.unwrap());
    let node = jobs.node().await;
    assert_eq!(jobs.take_from("paint", node, 1).await.len(), 1);
    site.db.bury(node).await;
    jobs.release_lost(10, NonZeroU32::new(3)).await.unwrap();
    assert_eq!(jobs.state(id).await, Some(JobState::Blocked));

    let executor = CommandExecutor::builder(messages).config(quick()).external_queue(lease(60)).start().await.unwrap();
    let client = site.client().await;
    let mut tap = client.tap(&site.names().external("paint"), 1).await;
    assert_eq!(tap.next().await.job(), id);
    executor.shutdown(PATIENCE).await.unwrap();
}
