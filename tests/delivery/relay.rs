//! Events and replies: published after the commit, removed on the broker's confirm.

use std::time::Duration;

use jobwright::admin::{JobFilter, JobState};
use jobwright::{CommandExecutor, NewJob, Outcome, Payload};

use crate::delivery::frames::{Confirms, Frames};
use crate::delivery::site::{Site, brisk};
use crate::support::TestDb;
use crate::support::environment::{PATIENCE, World, patient};
use crate::support::eventually;
use crate::support::postgres::Pg;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_published_if_its_context_commits() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    let names = site.names();
    producer.broker().unwrap().apply(&[], &[]).await.unwrap();
    let all = client.listen(&names.events(), "#").await;
    let paid = client.listen(&names.events(), &names.event("paid")).await;
    let elsewhere = site.messages().await;
    let executor = CommandExecutor::builder(elsewhere).config(patient()).without_handlers().start().await.unwrap();

    let mut rolled_back = producer.begin();
    rolled_back.transaction().await.unwrap().execute("select 1", &[]).await.unwrap();
    rolled_back.send(NewJob::event("paid", &0)).unwrap();
    rolled_back.rollback().await.unwrap();
    for n in 1..=20 {
        let mut cx = producer.begin();
        cx.send(NewJob::event("paid", &n).header("tenant", "acme")).unwrap();
        cx.send(NewJob::event("shipped", &n)).unwrap();
        cx.commit().await.unwrap();
    }
    for n in 1..=20 {
        let event = client.take(&paid).await;
        assert_eq!((event.text(), event.header("tenant").as_deref()), (n.to_string(), Some("acme")));
        assert_eq!((event.exchange.clone(), event.routing_key.clone()), (names.events(), names.event("paid")));
        assert_eq!(event.kind(), Some("paid"));
    }
    eventually(PATIENCE, async || executor.stats().relayed == 40).await;
    site.db.drained().await;
    assert_eq!(client.waiting(&all).await, 40);
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// Two nodes relay, and each event goes out once: the node that claimed it publishes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_relays_publish_each_event_once() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    producer.broker().unwrap().apply(&[], &[]).await.unwrap();
    let heard = client.listen(&site.names().events(), "#").await;
    let (first, second) = (site.messages().await, site.messages().await);
    let executors = [
        CommandExecutor::builder(first).config(patient()).without_handlers().start().await.unwrap(),
        CommandExecutor::builder(second).config(patient()).without_handlers().start().await.unwrap(),
    ];
    for _ in 0..20 {
        let mut cx = producer.begin();
        for n in 0..20 {
            cx.send(NewJob::event("counted", &n)).unwrap();
        }
        cx.commit().await.unwrap();
    }
    site.db.drained().await;
    assert_eq!(client.waiting(&heard).await, 400);
    let mut ids = std::collections::BTreeSet::new();
    while let Some(event) = client.get(&heard).await {
        ids.insert(event.job());
    }
    assert_eq!(ids.len(), 400);
    for executor in executors {
        executor.shutdown(Duration::ZERO).await.unwrap();
    }
}

/// Without listeners an event is dropped: that is the listeners' concern.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_without_listeners_is_dropped() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let messages = site.messages().await;
    let executor =
        CommandExecutor::builder(messages.clone()).config(patient()).without_handlers().start().await.unwrap();
    messages.send(NewJob::event("ignored", &1)).await.unwrap();
    site.db.drained().await;
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().relayed, 1);
}

/// A handler's event commits with its job: a handler that fails announces nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_published_only_after_its_commit() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (messages, client) = (site.messages().await, site.client().await);
    messages.broker().unwrap().apply(&[], &[]).await.unwrap();
    let heard = client.listen(&site.names().events(), "#").await;
    let executor = CommandExecutor::builder(messages.clone())
        .config(patient())
        .kind_options("work", crate::support::environment::at_once())
        .handle_with("work", |cx| {
            Box::pin(async move {
                cx.send(NewJob::event("worked", &cx.job().attempt))?;
                if cx.job().attempt < 3 {
                    return Err(jobwright::JobError::new("not yet"));
                }
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    messages.send(NewJob::json("work", &()).max_attempts(3)).await.unwrap();
    assert_eq!(client.take(&heard).await.text(), "3");
    site.db.drained().await;
    assert_eq!(client.waiting(&heard).await, 0);
    executor.shutdown(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_reaches_its_queue_or_becomes_a_dead_letter() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (messages, client) = (site.messages().await, site.client().await);
    let results = client.queue().await;
    let executor = CommandExecutor::builder(messages.clone())
        .config(patient())
        .handle_with("add", |cx| {
            Box::pin(async move {
                let (a, b): (i64, i64) = cx.job().payload.decode()?;
                cx.reply(Payload::json(&(a + b))?)?;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    let add = || NewJob::json("add", &(2, 3));
    let id = messages.send(add().reply_to(results.as_str(), "sum 1")).await.unwrap();
    let reply = client.take(&results).await;
    assert_eq!((reply.text().as_str(), reply.job()), ("5", id));
    assert_eq!(reply.correlation(), Some("sum 1"));
    // No reply was requested.
    messages.send(add()).await.unwrap();
    site.db.drained().await;

    // To a queue that does not exist, and to one of ours.
    for to in ["gone".to_owned() + site.names().submit().as_str(), site.names().submit()] {
        messages.send(add().reply_to(to, "sum 2")).await.unwrap();
        site.db.counts(JobState::Dead, 1).await;
        let dead = site.db.jobs().all().await;
        assert_eq!((dead.len(), dead[0].queue.as_str()), (1, "jobwright.reply"));
        site.db.jobs().delete(&JobFilter::state(JobState::Dead), false).await.unwrap();
    }
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// Without a confirm the outcome is unknown, so the event is published again: at least once. With a confirm it is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_whose_confirm_is_lost_is_published_again() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let client = site.client().await;
    let frames = Frames::start(site.address()).await;
    let config = site.broker_by(frames.address).confirm_timeout(Duration::from_secs(1));
    let messages = site.messages_with(&config).await;
    messages.broker().unwrap().up_within(PATIENCE).await.unwrap();
    messages.broker().unwrap().apply(&[], &[]).await.unwrap();
    let heard = client.listen(&site.names().events(), "#").await;
    let executor = CommandExecutor::builder(messages.clone()).config(brisk()).without_handlers().start().await.unwrap();
    for confirms in [Confirms::Lost, Confirms::Nacked] {
        frames.confirms(confirms);
        let id = messages.send(NewJob::event("doubtful", &1)).await.unwrap();
        assert_eq!(client.take(&heard).await.job(), id);
        assert_eq!(client.take(&heard).await.job(), id, "{confirms:?}: not again");
        assert!(site.db.jobs().state(id).await.is_some(), "{confirms:?}: removed without a confirm");
        frames.confirms(Confirms::Pass);
        site.db.drained().await;
        while client.get(&heard).await.is_some() {}
    }
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().relayed, 2);
}

/// Events wait while the broker can't be reached, and go out when it can. Nothing is lost when the relaying executor stops in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_wait_for_the_broker() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    producer.broker().unwrap().apply(&[], &[]).await.unwrap();
    let heard = client.listen(&site.names().events(), "#").await;
    let proxy = crate::support::proxy::Proxy::start(site.address()).await;
    proxy.down();
    let elsewhere = site.messages_with(&site.broker_by(proxy.address)).await;
    let executor = CommandExecutor::builder(elsewhere).config(patient()).without_handlers().start().await.unwrap();
    for n in 0..10 {
        producer.send(NewJob::event("late", &n)).await.unwrap();
    }
    site.db.counts(JobState::Waiting, 10).await;
    proxy.heal();
    eventually(PATIENCE, async || client.waiting(&heard).await == 10).await;
    site.db.drained().await;
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().relayed, 10);
}
