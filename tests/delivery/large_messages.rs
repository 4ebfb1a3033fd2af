//! Large outgoing messages: few of them are in memory at a time, whatever the number in flight.

use std::time::Duration;

use jobwright::{CommandExecutor, ExternalQueue, NewJob};

use crate::delivery::expensive_submissions::memory;
use crate::delivery::site::Site;
use crate::support::environment::{PATIENCE, patient};
use crate::support::eventually;
use crate::support::postgres::Pg;

const COUNT: usize = 200;

/// Sends jobs with payloads of the maximum size, a few in each commit.
async fn send(site: &Site, job: impl Fn(&str) -> NewJob) {
    let (messages, text) = (site.messages().await, "x".repeat((1 << 20) - 2));
    for _ in 0..COUNT / 4 {
        let mut cx = messages.begin();
        for _ in 0..4 {
            cx.send(job(&text)).unwrap();
        }
        cx.commit().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_jobs_are_handed_out_some_at_a_time() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    site.uses("paint");
    let messages = site.messages().await;
    messages.broker().unwrap().apply(&[], &["paint".to_owned()]).await.unwrap();
    send(&site, |text| NewJob::json("paint", text).queue("paint")).await;
    let client = site.client().await;
    let _tap = client.tap(&site.names().external("paint"), 1).await;
    let (before, _) = memory();
    let queue = ExternalQueue::new("paint").depth(500).lease(Duration::from_secs(600));
    let executor = CommandExecutor::builder(messages).config(patient()).external_queue(queue).start().await.unwrap();
    eventually(PATIENCE, async || executor.stats().handed_out == COUNT as u64).await;
    let (_, most) = memory();
    assert!(most < before + 430, "{before} MiB before, {most} MiB meanwhile");
    executor.shutdown(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_events_are_relayed_some_at_a_time() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let messages = site.messages().await;
    send(&site, |text| NewJob::event("told", text)).await;
    let (before, _) = memory();
    let executor = CommandExecutor::builder(messages).config(patient()).without_handlers().start().await.unwrap();
    eventually(PATIENCE, async || executor.stats().relayed == COUNT as u64).await;
    let (_, most) = memory();
    assert!(most < before + 430, "{before} MiB before, {most} MiB meanwhile");
    executor.shutdown(Duration::ZERO).await.unwrap();
}
