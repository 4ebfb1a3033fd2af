//! Limits on submissions and reports: how many wait, how fast they are taken in, and how full a queue of jobs may be.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jobwright::admin::{JobState, Rule, Scope};
use jobwright::internal::TopologyState;
use jobwright::{CommandExecutor, NewJob, Outcome, Payload};
use lapin::BasicProperties;
use lapin::types::AMQPValue;

use crate::delivery::amqp_client::{headers, submission};
use crate::delivery::site::{Site, noting};
use crate::support::environment::{PATIENCE, patient};
use crate::support::postgres::Pg;
use crate::support::{TestDb, eventually, unique};

/// The arguments of existing queues can't be changed, and the queues may be full of messages, so they are used as they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_of_an_earlier_build_go_on_without_limits_and_lose_nothing() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    site.uses("paint");
    let (client, names) = (site.client().await, site.names());
    for (name, rejected) in [(names.submit(), names.rejected()), (names.reply(), names.rejected_reports())] {
        let mut arguments = headers([("x-queue-type", "quorum"), ("x-dead-letter-exchange", "")]);
        arguments.insert("x-dead-letter-routing-key".into(), AMQPValue::LongString(rejected.as_str().into()));
        client.declare(&name, arguments).await;
        let mut arguments = headers([("x-queue-type", "quorum")]);
        arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(1_000_000_000));
        client.declare(&rejected, arguments).await;
    }
    client.publish_all(&names.submit(), (0..5).map(|_| (submission("shelf"), b"1".to_vec())).collect()).await;
    client.publish_all(&names.rejected(), vec![(submission("shelf"), b"old".to_vec())]).await;
    client.publish_all(&names.submit(), vec![(submission("shelf"), b"rubbish".to_vec())]).await;

    let messages = site.messages().await;
    let executor = noting::<Pg<false>>(&messages, patient(), 1).await;
    eventually(PATIENCE, async || site.waiting("shelf").await == 5).await;
    eventually(PATIENCE, async || client.waiting(&names.rejected()).await == 2).await;
    let broker = messages.broker().unwrap();
    let unlimited = || vec![names.rejected(), names.submit(), names.rejected_reports(), names.reply()];
    for items in [broker.check(&[], &["paint".to_owned()]).await, broker.apply(&[], &["paint".to_owned()]).await] {
        let items = items.unwrap();
        let found = items.iter().filter(|item| item.state == TopologyState::Unlimited);
        assert_eq!(found.map(|item| item.name.clone()).collect::<Vec<_>>(), unlimited(), "{items:?}");
        assert!(!items.iter().any(|item| matches!(item.state, TopologyState::Differs(_))), "{items:?}");
    }
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// The publisher is notified, and every confirmed message is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_of_submissions_refuses_more_and_drops_none() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (client, names) = (site.client().await, site.names());
    let messages = site.messages_with(&site.broker().submit_depth(5)).await;
    let broker = messages.broker().unwrap();
    broker.up_within(PATIENCE).await.unwrap();
    broker.apply(&[], &[]).await.unwrap();
    let (mut confirmed, mut refused) = (0, 0);
    while refused < 5 {
        let taken = client.publish("", &names.submit(), submission("shelf"), b"1").await;
        *(if taken { &mut confirmed } else { &mut refused }) += 1;
        assert!(confirmed < 50, "it is never full");
    }
    let executor = noting::<Pg<false>>(&messages, patient(), 1).await;
    eventually(PATIENCE, async || executor.stats().submitted == confirmed).await;
    assert_eq!(site.waiting("shelf").await as u64, confirmed);
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// Invalid messages have to be moved to the queue of rejected ones, and stay in place until that is possible.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_submissions_wait_for_room_and_good_ones_pass() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (client, names) = (site.client().await, site.names());
    let messages = site.messages_with(&site.broker().submit_depth(5)).await;
    let broker = messages.broker().unwrap();
    broker.up_within(PATIENCE).await.unwrap();
    broker.apply(&[], &[]).await.unwrap();
    while client.publish("", &names.rejected(), submission("shelf"), b"old").await {}
    let executor = noting::<Pg<false>>(&messages, patient(), 1).await;
    assert!(client.publish("", &names.submit(), submission("shelf"), b"rubbish").await);
    eventually(PATIENCE, async || broker.stats().nacked > 1).await;
    assert!(client.publish("", &names.submit(), submission("shelf"), b"1").await);
    eventually(PATIENCE, async || site.waiting("shelf").await == 1).await;
    client.purge(&names.rejected()).await;
    assert_eq!(client.take(&names.rejected()).await.body, b"rubbish");
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// The limit of a client's queue for results is the client's choice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_whose_queue_is_full_waits_in_the_table() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (messages, client) = (site.messages().await, site.client().await);
    let results = unique("results.");
    let mut arguments = headers([("x-overflow", "reject-publish")]);
    arguments.insert("x-max-length".into(), AMQPValue::LongLongInt(1));
    client.declare(&results, arguments).await;
    while client.publish("", &results, BasicProperties::default(), b"old").await {}
    let executor = CommandExecutor::builder(messages.clone())
        .config(patient())
        .handle_with("add", |cx| {
            Box::pin(async move {
                cx.reply(Payload::json(&5)?)?;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    messages.send(NewJob::json("add", &()).reply_to(results.as_str(), "sum 1")).await.unwrap();
    let broker = messages.broker().unwrap();
    eventually(PATIENCE, async || broker.stats().nacked > 1).await;
    assert_eq!(site.db.jobs().count(JobState::Dead).await, 0);
    client.purge(&results).await;
    assert_eq!(client.take(&results).await.text(), "5");
    client.delete(&results).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submissions_are_taken_in_no_faster_than_is_allowed() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (client, names) = (site.client().await, site.names());
    let messages = site.messages_with(&site.broker().intake_rate(20)).await;
    let broker = messages.broker().unwrap();
    broker.up_within(PATIENCE).await.unwrap();
    broker.apply(&[], &[]).await.unwrap();
    client.publish_all(&names.submit(), (0..80).map(|_| (submission("shelf"), b"1".to_vec())).collect()).await;
    let begun = Instant::now();
    let executor = noting::<Pg<false>>(&messages, patient(), 1).await;
    // In steps: the first need not wait until the last may come.
    let mut steps = BTreeSet::new();
    eventually(PATIENCE, async || {
        steps.insert(executor.stats().submitted);
        steps.contains(&80)
    })
    .await;
    assert!(steps.range(1..80).count() >= 3, "{steps:?}");
    assert!(begun.elapsed() >= Duration::from_secs(3), "{:?}", begun.elapsed());
    executor.shutdown(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submissions_for_a_full_queue_wait_a_while_and_others_pass() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (client, names) = (site.client().await, site.names());
    let messages = site.messages().await;
    messages.broker().unwrap().apply(&[], &[]).await.unwrap();
    site.db.jobs().put_rule(&Rule::new(Scope::Queue, "shelf").depth(1)).await.unwrap();
    let executor = noting::<Pg<false>>(&messages, patient(), 1).await;
    assert!(client.publish("", &names.submit(), submission("shelf"), b"1").await);
    eventually(PATIENCE, async || site.waiting("shelf").await == 1).await;

    // Three wait, and a submission for another queue does not.
    client.publish_all(&names.submit(), (0..3).map(|_| (submission("shelf"), b"1".to_vec())).collect()).await;
    assert!(client.publish("", &names.submit(), submission("other"), b"1").await);
    eventually(PATIENCE, async || site.waiting("other").await == 1).await;
    assert_eq!((site.waiting("shelf").await, executor.stats().messages_refused), (1, 0));

    // Too many to wait: half of the prefetched messages are rejected.
    let flood = (0..200).map(|_| (submission("shelf"), b"1".to_vec()));
    client.publish_all(&names.submit(), flood.collect()).await;
    assert!(client.publish("", &names.submit(), submission("other"), b"1").await);
    let refused = client.take(&names.rejected()).await;
    assert_eq!(refused.header("jobwright-reason").as_deref(), Some("full"));
    eventually(PATIENCE, async || site.waiting("other").await == 2).await;

    // With capacity the rest is taken: none is lost.
    site.db.jobs().put_rule(&Rule::new(Scope::Queue, "shelf").depth(1000)).await.unwrap();
    eventually(PATIENCE, async || site.waiting("shelf").await as u64 + executor.stats().messages_refused == 204).await;
    assert!(site.waiting("shelf").await > 4, "what waited was refused");
    executor.shutdown(Duration::ZERO).await.unwrap();
}
