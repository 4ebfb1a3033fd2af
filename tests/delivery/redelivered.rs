//! Messages that have to wait are redelivered after a restart: messages behind them are taken in.

use std::time::{Duration, Instant};

use jobwright::admin::{Rule, Scope};
use jobwright::{CommandExecutor, ExternalQueue, JobId, NewJob, QueueType};
use lapin::BasicProperties;

use crate::delivery::amqp_client::submission;
use crate::delivery::site::{Site, noting};
use crate::support::environment::{PATIENCE, patient};
use crate::support::postgres::Pg;
use crate::support::{TestDb, eventually};

/// Shorter than any message waits before it is given up or given back.
const SOON: Duration = Duration::from_secs(25);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_others_pass_those_that_wait_for_room() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (client, names) = (site.client().await, site.names());
    let messages = site.messages().await;
    messages.broker().unwrap().apply(&[], &[]).await.unwrap();
    site.db.jobs().put_rule(&Rule::new(Scope::Queue, "shelf").depth(1)).await.unwrap();
    let executor = noting::<Pg<false>>(&messages, patient(), 1).await;
    assert!(client.publish("", &names.submit(), submission("shelf"), b"1").await);
    eventually(PATIENCE, async || site.waiting("shelf").await == 1).await;
    client.publish_all(&names.submit(), (0..3).map(|_| (submission("shelf"), b"1".to_vec())).collect()).await;
    eventually(PATIENCE, async || client.waiting(&names.submit()).await == 0).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    eventually(PATIENCE, async || client.waiting(&names.submit()).await == 3).await;

    let executor = noting::<Pg<false>>(&site.messages().await, patient(), 1).await;
    let begun = Instant::now();
    assert!(client.publish("", &names.submit(), submission("other"), b"1").await);
    eventually(PATIENCE, async || site.waiting("other").await == 1).await;
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert_eq!(executor.stats().messages_refused, 0);
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// A new message comes when there is capacity again, before the redelivered ones are checked again: it must not overtake them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_those_that_wait_for_room_are_not_overtaken() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (client, names, jobs) = (site.client().await, site.names(), site.db.jobs());
    let messages = site.messages().await;
    messages.broker().unwrap().apply(&[], &[]).await.unwrap();
    jobs.put_rule(&Rule::new(Scope::Queue, "shelf").depth(4)).await.unwrap();
    let executor = noting::<Pg<false>>(&messages, patient(), 1).await;
    let ids: Vec<_> = (0..8).map(|_| JobId::new()).collect();
    let send = async |id: JobId| {
        let properties = submission("shelf").with_message_id(id.to_string().as_str().into());
        assert!(client.publish("", &names.submit(), properties, b"1").await);
    };
    for (n, id) in ids.iter().enumerate().take(7) {
        send(*id).await;
        eventually(PATIENCE, async || site.waiting("shelf").await == (n + 1).min(4)).await;
    }
    eventually(PATIENCE, async || client.waiting(&names.submit()).await == 0).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    eventually(PATIENCE, async || client.waiting(&names.submit()).await == 3).await;

    let executor = noting::<Pg<false>>(&site.messages().await, patient(), 1).await;
    assert!(client.publish("", &names.submit(), submission("other"), b"1").await);
    eventually(PATIENCE, async || site.waiting("other").await == 1).await;
    site.db.client().await.execute("delete from job where queue = 'shelf'", &[]).await.unwrap();
    send(ids[7]).await;
    eventually(PATIENCE, async || site.waiting("shelf").await == 4).await;
    let mut all = jobs.all().await;
    all.retain(|job| job.queue == "shelf");
    all.sort_by_key(|job| job.seq);
    assert_eq!(all.into_iter().map(|job| job.id).collect::<Vec<_>>(), ids[4..]);
    executor.shutdown(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_good_submissions_pass_one_that_can_not_be_rejected() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (client, names) = (site.client().await, site.names());
    // With a classic queue, a returned message comes next again.
    let config = site.broker().submit_depth(5).queue_type(QueueType::Classic);
    let messages = site.messages_with(&config).await;
    let broker = messages.broker().unwrap();
    broker.up_within(PATIENCE).await.unwrap();
    broker.apply(&[], &[]).await.unwrap();
    while client.publish("", &names.rejected(), submission("shelf"), b"old").await {}
    let executor = noting::<Pg<false>>(&messages, patient(), 1).await;
    assert!(client.publish("", &names.submit(), submission("shelf"), b"rubbish").await);
    eventually(PATIENCE, async || broker.stats().nacked > 1).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    eventually(PATIENCE, async || client.waiting(&names.submit()).await == 1).await;

    let executor = noting::<Pg<false>>(&site.messages_with(&config).await, patient(), 1).await;
    let begun = Instant::now();
    assert!(client.publish("", &names.submit(), submission("shelf"), b"1").await);
    eventually(PATIENCE, async || site.waiting("shelf").await == 1).await;
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    executor.shutdown(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_good_reports_pass_one_that_can_not_be_rejected() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    site.uses("paint");
    let (client, names) = (site.client().await, site.names());
    // With a classic queue, a returned message comes next again.
    let config = site.broker().submit_depth(5).queue_type(QueueType::Classic);
    let paint = || ExternalQueue::new("paint").lease(Duration::from_secs(300));
    let messages = site.messages_with(&config).await;
    let broker = messages.broker().unwrap();
    broker.up_within(PATIENCE).await.unwrap();
    broker.apply(&[], &["paint".to_owned()]).await.unwrap();
    while client.publish("", &names.rejected_reports(), BasicProperties::default(), b"old").await {}
    let start = async |messages| {
        CommandExecutor::builder(messages).config(patient()).external_queue(paint()).start().await.unwrap()
    };
    let executor = start(messages.clone()).await;
    messages.send(NewJob::json("paint", &1).queue("paint")).await.unwrap();
    let mut tap = client.tap(&names.external("paint"), 0).await;
    let job = tap.next().await;
    tap.ack(&job).await;
    assert!(client.publish("", &names.reply(), BasicProperties::default(), b"rubbish").await);
    eventually(PATIENCE, async || broker.stats().nacked > 1).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    eventually(PATIENCE, async || client.waiting(&names.reply()).await == 1).await;

    let executor = start(site.messages_with(&config).await).await;
    let begun = Instant::now();
    let properties = BasicProperties::default().with_headers(job.about_it()).with_type("done".into());
    assert!(client.publish("", &names.reply(), properties, b"").await);
    eventually(PATIENCE, async || site.db.jobs().all().await.is_empty()).await;
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    executor.shutdown(Duration::ZERO).await.unwrap();
}
