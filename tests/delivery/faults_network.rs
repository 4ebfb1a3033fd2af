//! The network to the broker fails, for some processes and not for others.

use std::time::{Duration, Instant};

use jobwright::admin::JobState;
use jobwright::{CommandExecutor, ExternalQueue, JobId, MessageServices, NewJob};

use crate::delivery::frames::{Confirms, Frames, Trigger};
use crate::delivery::load::Load;
use crate::delivery::site::{Site, brisk, note, noting, send};
use crate::support::environment::{PATIENCE, World, patient};
use crate::support::postgres::Pg;
use crate::support::proxy::Proxy;
use crate::support::{TestDb, eventually};

async fn down(messages: &MessageServices) {
    eventually(PATIENCE, async || !messages.broker().unwrap().mode().is_up()).await;
}

async fn up(messages: &MessageServices) {
    messages.broker().unwrap().up_within(PATIENCE).await.unwrap();
}

/// The executor that is cut off claims from the table; the others notice nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_executor_is_cut_off_under_load() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let proxy = Proxy::start(site.address()).await;
    let producer = site.messages().await;
    let (near, far) = (site.messages().await, site.messages_with(&site.broker_by(proxy.address)).await);
    let (first, second) = (noting::<Pg<false>>(&near, brisk(), 5).await, noting::<Pg<false>>(&far, brisk(), 5).await);
    up(&far).await;
    let mut ids = site.warm(&producer, note).await;
    let load = Load::start(&producer, 5, Duration::from_millis(20));
    eventually(PATIENCE, async || second.stats().delivered >= 20).await;
    for _ in 0..2 {
        proxy.down();
        down(&far).await;
        let before = first.stats().delivered;
        eventually(PATIENCE, async || first.stats().delivered >= before + 50).await;
        proxy.heal();
        up(&far).await;
        let before = second.stats().delivered;
        eventually(PATIENCE, async || second.stats().delivered >= before + 20).await;
    }
    ids.extend(load.end().await);
    site.settled(&ids).await;
    for executor in [first, second] {
        let stats = executor.shutdown(Duration::ZERO).await.unwrap();
        assert_eq!(stats.refused, 0);
    }
}

/// The cable is pulled: connections stay open and nothing passes. Heartbeats detect it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_open_connections_under_load() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let proxy = Proxy::start(site.address()).await;
    let by = site.broker_by(proxy.address);
    let (producer, elsewhere) = (site.messages_with(&by).await, site.messages_with(&by).await);
    let executor = noting::<Pg<false>>(&elsewhere, brisk(), 5).await;
    let mut ids = site.warm(&producer, note).await;
    let load = Load::start(&producer, 5, Duration::from_millis(20));
    proxy.stall();
    // Two heartbeats of 2 s.
    let start = Instant::now();
    down(&producer).await;
    down(&elsewhere).await;
    assert!(start.elapsed() < Duration::from_secs(15), "it took {:?}", start.elapsed());
    let before = site.db.ledger().await.len();
    eventually(PATIENCE, async || site.db.ledger().await.len() >= before + 100).await;
    proxy.heal();
    up(&producer).await;
    up(&elsewhere).await;
    let before = executor.stats().delivered;
    eventually(PATIENCE, async || executor.stats().delivered >= before + 50).await;
    ids.extend(load.end().await);
    site.settled(&ids).await;
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().refused, 0);
}

/// One executor loses the broker while rows wait, and others are hidden for deliveries that another consumer took. They start when the supervisor
/// knows, not at a poll: the executor would poll again in an hour.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn change_over_starts_waiting_and_held_rows_at_once() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let proxy = Proxy::start(site.address()).await;
    let (producer, client) = (site.messages().await, site.client().await);
    let far = site.messages_with(&site.broker_by(proxy.address)).await;
    up(&far).await;
    let executor = noting::<Pg<false>>(&far, patient(), 50).await;
    let mut ids = site.warm(&producer, note).await;
    site.db.drained().await;
    // Takes every second delivery, and keeps it.
    let mut thief = client.tap(&site.names().deliveries("default"), 0).await;
    let mut cx = producer.begin();
    ids.extend((0..100).map(|_| cx.send(note()).unwrap()));
    assert_eq!(cx.commit_confirmed().await.unwrap().broker, 100);
    thief.next().await;
    let mut changes = far.broker().unwrap().changes();
    proxy.down();
    changes.wait_for(|mode| !mode.is_up()).await.unwrap();
    let known = Instant::now();
    site.settled(&ids).await;
    let took = known.elapsed();
    assert!(took < Duration::from_secs(3), "the change-over took {took:?}");

    // Sent while the executor is cut off: it claims them from the table, though the producer has a broker.
    thief.close().await;
    ids.extend(send(&producer, 50, note).await);
    // Deliveries resume. There is no stampede: late deliveries are stale, and nothing is claimed twice.
    proxy.heal();
    up(&far).await;
    // The producer may publish before the executor consumes again: the consumer that it saw last may be the thief.
    let before = executor.stats().delivered;
    eventually(PATIENCE, async || {
        ids.extend(site.warm(&producer, note).await);
        site.db.drained().await;
        executor.stats().delivered > before
    })
    .await;
    // In between the producer may have seen a queue without consumers.
    ids.extend(site.warm(&producer, note).await);
    site.db.drained().await;
    let before = executor.stats().delivered;
    for _ in 0..10 {
        let mut cx = producer.begin();
        ids.extend((0..20).map(|_| cx.send(note()).unwrap()));
        assert_eq!(cx.commit_confirmed().await.unwrap().broker, 20);
        // Each finds a free slot: a busy executor leaves deliveries to the table.
        site.db.drained().await;
    }
    site.settled(&ids).await;
    let stats = executor.shutdown(Duration::ZERO).await.unwrap();
    assert!(stats.delivered >= before + 200, "{stats:?}");
    assert!(stats.claimed == ids.len() as u64 && stats.stale <= 250, "{stats:?}");
    assert_eq!(stats.refused, 0);
}

/// One end uses the table while the other uses the broker; then the other way round.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn producer_and_executor_disagree_whether_the_broker_is_up() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (ours, theirs) = (Proxy::start(site.address()).await, Proxy::start(site.address()).await);
    let producer = site.messages_with(&site.broker_by(ours.address)).await;
    let elsewhere = site.messages_with(&site.broker_by(theirs.address)).await;
    let executor = noting::<Pg<false>>(&elsewhere, brisk(), 10).await;
    let mut ids = site.warm(&producer, note).await;
    ours.down();
    down(&producer).await;
    ids.extend(send(&producer, 50, note).await);
    site.settled(&ids).await;
    ours.heal();
    up(&producer).await;
    ids.extend(site.warm(&producer, note).await);
    theirs.down();
    // At once: the producer's last check of the queue may be a second old.
    ids.extend(send(&producer, 50, note).await);
    down(&elsewhere).await;
    ids.extend(send(&producer, 50, note).await);
    site.settled(&ids).await;
    theirs.heal();
    up(&elsewhere).await;
    ids.extend(site.warm(&producer, note).await);
    site.settled(&ids).await;
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().refused, 0);
}

/// The broker has the message but its answer does not come. The row can then be delivered and claimed from the table, and only one of the two
/// succeeds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn confirms_are_lost_or_turned_into_refusals() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let frames = Frames::start(site.address()).await;
    let config = site.broker_by(frames.address).confirm_timeout(Duration::from_secs(1));
    let producer = site.messages_with(&config).await;
    let elsewhere = site.messages().await;
    let executor = noting::<Pg<false>>(&elsewhere, patient(), 10).await;
    let mut ids = site.warm(&producer, note).await;
    for confirms in [Confirms::Lost, Confirms::Nacked, Confirms::Lost] {
        frames.confirms(confirms);
        let mut cx = producer.begin();
        ids.extend((0..20).map(|_| cx.send(note()).unwrap()));
        let start = Instant::now();
        let went = cx.commit_confirmed().await.unwrap();
        assert_eq!((went.broker, went.table), (0, 20), "{confirms:?}");
        assert!(start.elapsed() < Duration::from_secs(5), "{confirms:?}: waited {:?}", start.elapsed());
        site.settled(&ids).await;
        frames.confirms(Confirms::Pass);
        ids.extend(site.warm(&producer, note).await);
    }
    assert!(frames.hits() > 0);
    let stats = producer.broker().unwrap().stats();
    // One message a commit.
    assert!(stats.unknown >= 2 && stats.nacked >= 1, "{stats:?}");
    site.settled(&ids).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// A quorum queue does this to a channel that it blocked as full, if its leader is lost before it unblocks the channel.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_on_which_everything_is_refused_is_given_up() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let frames = Frames::start(site.address()).await;
    let producer = site.messages_with(&site.broker_by(frames.address)).await;
    let elsewhere = site.messages().await;
    // Where a head start ends just when its delivery is claimed, each may pass over the row for the other: a poll finds it then.
    let executor = noting::<Pg<false>>(&elsewhere, brisk(), 10).await;
    let mut ids = site.warm(&producer, note).await;
    frames.confirms(Confirms::NackedHere);
    // Until one goes through the broker again.
    ids.extend(site.warm(&producer, note).await);
    let stats = producer.broker().unwrap().stats();
    assert!(stats.nacked > 0 && stats.changes.total() == 1, "on the same connection: {stats:?}");
    site.settled(&ids).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// Channels end with an error, and subscriptions are cancelled, while the connection stays open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn channels_are_closed_with_406_and_consumers_cancelled_under_load() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let frames = Frames::start(site.address()).await;
    let by = site.broker_by(frames.address);
    let (producer, elsewhere) = (site.messages_with(&by).await, site.messages_with(&by).await);
    let executor = noting::<Pg<false>>(&elsewhere, brisk(), 10).await;
    let mut ids = site.warm(&producer, note).await;
    let load = Load::start(&producer, 5, Duration::from_millis(20));
    let triggers = [Trigger::Confirm, Trigger::Delivery, Trigger::Cancel, Trigger::Confirm, Trigger::Delivery];
    for (n, trigger) in triggers.into_iter().enumerate() {
        frames.close_channel_at(trigger);
        eventually(PATIENCE, async || frames.hits() == n as u64 + 1).await;
        let before = executor.stats().delivered;
        eventually(PATIENCE, async || executor.stats().delivered >= before + 50).await;
    }
    ids.extend(load.end().await);
    site.settled(&ids).await;
    // The connections are the same ones.
    assert_eq!(producer.broker().unwrap().stats().changes.total(), 1);
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().refused, 0);
}

/// The database is away for a while, and the consumer stays: its unacknowledged deliveries are neither stuck nor lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_fails_while_deliveries_come() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let proxy = Proxy::start(site.db.address()).await;
    let producer = site.messages().await;
    let elsewhere = MessageServices::postgres(&site.db.config_by(proxy.address)).await.unwrap();
    let elsewhere = site.with_broker(elsewhere, &site.broker()).await;
    let executor = noting::<Pg<false>>(&elsewhere, crate::support::environment::lease(10), 10).await;
    let mut ids = site.warm(&producer, note).await;
    let load = Load::start(&producer, 5, Duration::from_millis(20));
    for cut in [true, false] {
        let before = executor.stats().delivered;
        eventually(PATIENCE, async || executor.stats().delivered >= before + 50).await;
        if cut {
            proxy.down();
        } else {
            proxy.stall();
        }
        // Deliveries are sent all the time, as many as this consumer prefetches, and can't be claimed.
        let confirmed = producer.broker().unwrap().stats().confirmed;
        eventually(PATIENCE, async || producer.broker().unwrap().stats().confirmed > confirmed + 20).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        proxy.heal();
    }
    let before = executor.stats().delivered;
    eventually(PATIENCE, async || executor.stats().delivered >= before + 50).await;
    ids.extend(load.end().await);
    site.settled(&ids).await;
    // Deliveries left in the queue are stale, because their rows were claimed from the table meanwhile.
    let client = site.client().await;
    eventually(PATIENCE, async || client.waiting(&site.names().deliveries("default")).await == 0).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    // Nothing was kept unacknowledged, or it would be back now.
    assert_eq!(client.waiting(&site.names().deliveries("default")).await, 0);
}

/// Submissions of external producers likewise wait until they can be stored, and are stored once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submissions_wait_for_the_database() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let proxy = Proxy::start(site.db.address()).await;
    let messages = MessageServices::postgres(&site.db.config_by(proxy.address)).await.unwrap();
    let messages = site.with_broker(messages, &site.broker()).await;
    up(&messages).await;
    messages.broker().unwrap().apply(&[], &[]).await.unwrap();
    let executor = noting::<Pg<false>>(&messages, crate::support::environment::lease(10), 10).await;
    let client = site.client().await;
    let mut ids = Vec::new();
    for round in 0..3 {
        if round > 0 {
            proxy.down();
        }
        let some: Vec<_> = (0..20).map(|_| JobId::new()).collect();
        let submissions = some.iter().map(|id| {
            let properties = lapin::BasicProperties::default()
                .with_message_id(id.to_string().into())
                .with_type("note".into())
                .with_content_type("application/json".into());
            (properties, b"1".to_vec())
        });
        // Repeated, as by a producer that got no confirm.
        let submissions: Vec<_> = submissions.collect();
        client.publish_all(&site.names().submit(), submissions.clone()).await;
        client.publish_all(&site.names().submit(), submissions).await;
        ids.extend(some);
        let received = 2 * ids.len() as u64;
        eventually(PATIENCE, async || messages.broker().unwrap().stats().received >= received).await;
        proxy.heal();
        eventually(PATIENCE, async || executor.stats().submitted == ids.len() as u64).await;
    }
    site.settled(&ids).await;
    eventually(PATIENCE, async || client.depth(&site.names().submit()).await.is_some_and(|(waiting, _)| waiting == 0))
        .await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// Connects to the database through the proxy, with short deadlines, and to the broker.
async fn beyond(site: &Site, proxy: &Proxy) -> MessageServices {
    let database =
        site.db.config_by(proxy.address).call_timeout(Duration::from_secs(2)).connect_timeout(Duration::from_secs(2));
    let messages = MessageServices::postgres(&database).await.unwrap();
    let messages = site.with_broker(messages, &site.broker()).await;
    up(&messages).await;
    messages
}

/// Until a submission is stored it belongs to the broker: a process that ends before that gives it back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_that_was_not_stored_goes_back() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let proxy = Proxy::start(site.db.address()).await;
    let messages = beyond(&site, &proxy).await;
    messages.broker().unwrap().apply(&[], &[]).await.unwrap();
    let executor = noting::<Pg<false>>(&messages, crate::support::environment::lease(10), 10).await;
    let (client, submit) = (site.client().await, site.names().submit());
    let [first, id] = [JobId::new(), JobId::new()];
    let properties = |id: JobId| {
        lapin::BasicProperties::default()
            .with_message_id(id.to_string().into())
            .with_type("note".into())
            .with_content_type("application/json".into())
    };
    assert!(client.publish("", &submit, properties(first), b"1").await);
    eventually(PATIENCE, async || executor.stats().submitted == 1).await;
    proxy.down();
    assert!(client.publish("", &submit, properties(id), b"1").await);
    eventually(PATIENCE, async || messages.broker().unwrap().stats().received >= 2).await;
    // Enough time for a wrong ack: acks go out in batches.
    tokio::time::sleep(Duration::from_millis(500)).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    messages.broker().unwrap().close(Duration::from_secs(5)).await;
    eventually(PATIENCE, async || client.waiting(&submit).await == 1).await;
    let healthy = site.messages().await;
    let executor = noting::<Pg<false>>(&healthy, patient(), 10).await;
    eventually(PATIENCE, async || executor.stats().submitted == 1).await;
    site.settled(&[first, id]).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// The same for an external worker's report.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_that_was_not_recorded_goes_back() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    site.uses("paint");
    let proxy = Proxy::start(site.db.address()).await;
    let (messages, healthy) = (beyond(&site, &proxy).await, site.messages().await);
    messages.broker().unwrap().apply(&[], &["paint".to_owned()]).await.unwrap();
    let queue = || ExternalQueue::new("paint").lease(Duration::from_secs(3600));
    let hand_out = async |messages: &MessageServices| {
        CommandExecutor::builder(messages.clone()).config(brisk()).external_queue(queue()).start().await.unwrap()
    };
    let executor = hand_out(&messages).await;
    let (client, reply) = (site.client().await, site.names().reply());
    let mut tap = client.tap(&site.names().external("paint"), 0).await;
    let id = healthy.send(NewJob::json("paint", &1).queue("paint")).await.unwrap();
    let message = tap.next().await;
    tap.ack(&message).await;
    eventually(PATIENCE, async || executor.stats().handed_out == 1).await;
    proxy.down();
    let properties = lapin::BasicProperties::default().with_headers(message.about_it()).with_type("done".into());
    assert!(client.publish("", &reply, properties, b"").await);
    eventually(PATIENCE, async || messages.broker().unwrap().stats().received >= 1).await;
    // Enough time for a wrong ack: acks go out in batches.
    tokio::time::sleep(Duration::from_millis(500)).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    messages.broker().unwrap().close(Duration::from_secs(5)).await;
    eventually(PATIENCE, async || client.waiting(&reply).await == 1).await;
    let executor = hand_out(&healthy).await;
    site.db.gone(id).await;
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().reported, 1);
}

/// The rows are owned by a node that lives and does not know it: no other process would release them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_whose_claim_was_not_answered_are_given_back() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let proxy = Proxy::start(site.db.address()).await;
    let (messages, producer) = (beyond(&site, &proxy).await, site.messages().await);
    // A lease that outlives the test, and no poll: only the node itself can give it back.
    let never = crate::support::environment::lease(300).poll_interval(Duration::from_secs(3600));
    let executor = noting::<Pg<false>>(&messages, never, 10).await;
    let warm = site.warm(&producer, note).await;
    eventually(PATIENCE, async || executor.stats().delivered > 0).await;
    site.settled(&warm).await;
    // The claim's parameters name the kinds; its name and text were sent before.
    proxy.swallow_answer_to("note");
    let id = producer.send(note()).await.unwrap();
    eventually(PATIENCE, async || proxy.swallowed() == 1).await;
    // The claim's number, which the row keeps when it is given back: on a slow machine that may have happened already.
    let jobs = site.db.jobs();
    eventually(PATIENCE, async || jobs.show(id).await.unwrap().is_none_or(|job| job.version != 0)).await;
    eventually(PATIENCE, async || site.db.jobs().state(id).await != Some(JobState::Running)).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}
