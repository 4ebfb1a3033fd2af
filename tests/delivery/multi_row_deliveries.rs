//! Deliveries that name several rows: one flush makes as few messages as possible, and each row is treated as if it had come alone.

use std::time::Duration;

use jobwright::admin::JobState;
use jobwright::internal::Fence;
use jobwright::internal::wire_testing;
use jobwright::{JobId, KindOptions, NewJob};
use lapin::BasicProperties;

use crate::delivery::amqp_client::{Message, pointer};
use crate::delivery::site::{Site, keeper, note, noting, send, wait};
use crate::support::environment::{Gate, PATIENCE, World, patient};
use crate::support::postgres::Pg;
use crate::support::{TestDb, eventually};

/// Returns the rows that a message names, as our executors read it.
fn rows(message: &Message) -> Vec<(JobId, String)> {
    let rows = wire_testing::delivery(message.properties.clone(), message.body.clone()).unwrap();
    rows.into_iter().map(|(fence, kind)| (fence.id, kind)).collect()
}

/// Returns a delivery of these rows of the queue `default`, as our producers make it.
fn parcel(site: &Site, rows: &[(JobId, i64, &str)]) -> (BasicProperties, Vec<u8>) {
    let rows: Vec<_> = rows.iter().map(|(id, version, kind)| (Fence::new(*id, *version), (*kind).to_owned())).collect();
    let (_, _, properties, body) = wire_testing::delivery_of(&site.names(), "default", &rows).unwrap();
    (properties, body)
}

/// Counts hidden rows, which only their deliveries can start.
async fn held(site: &Site) -> i64 {
    let row = site.db.client().await.query_one("select count(*) from job where visible_at is not null", &[]).await;
    row.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flush_of_many_kinds_goes_in_as_few_messages_as_can_be_and_priorities_go_by_the_table() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    producer.broker().unwrap().apply(&["default".to_owned()], &[]).await.unwrap();
    let mut tap = client.tap(&site.names().deliveries("default"), 0).await;
    let warm = site.warm(&producer, note).await;
    while Some(&tap.next().await.job()) != warm.last() {}
    let mut cx = producer.begin();
    let mut expected = Vec::new();
    for n in 0..80 {
        let kind = ["note", "wait", "draw"][n % 3];
        match n % 20 {
            18 => drop(cx.send(NewJob::json(kind, &()).priority(1)).unwrap()),
            19 => drop(cx.send(NewJob::json(kind, &()).priority(-1)).unwrap()),
            _ => expected.push((cx.send(NewJob::json(kind, &()).priority(0)).unwrap(), kind.to_owned())),
        }
    }
    let before = producer.broker().unwrap().stats().confirmed;
    let went = cx.commit_confirmed().await.unwrap();
    assert_eq!((went.broker, went.table), (72, 8));
    assert_eq!(producer.broker().unwrap().stats().confirmed, before + 3);
    let mut named = Vec::new();
    for _ in 0..3 {
        named.push(rows(&tap.next().await));
    }
    assert_eq!(named.iter().map(Vec::len).collect::<Vec<_>>(), [24; 3], "they are of one size");
    assert_eq!(named.concat(), expected);
}

/// Two of the six find no slot. They are released while the others run, no longer hidden, and the delivery is acked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_is_cut_in_two_where_there_is_room_for_a_part_of_it() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    let gate = Gate::closed();
    let first = site.messages().await;
    let narrow = keeper::<Pg<false>>(&first, patient(), 4, &gate).start().await.unwrap();
    let mut ids = site.warm(&producer, note).await;
    eventually(PATIENCE, async || site.db.ledger().await.len() == ids.len()).await;
    let before = producer.broker().unwrap().stats().confirmed;
    let mut cx = producer.begin();
    ids.extend((0..6).map(|_| cx.send(wait()).unwrap()));
    assert_eq!(cx.commit_confirmed().await.unwrap().broker, 6);
    assert_eq!(producer.broker().unwrap().stats().confirmed, before + 1);
    site.db.counts(JobState::Running, 4).await;
    eventually(PATIENCE, async || narrow.stats().left_to_table == 2).await;
    // A head start that merely ends would still show as `visible_at`.
    eventually(PATIENCE, async || held(&site).await == 0).await;
    assert_eq!(site.db.jobs().count(JobState::Waiting).await, 2);
    // Other nodes run them meanwhile.
    let ready = Gate::closed();
    ready.open();
    let second = site.messages().await;
    let wide = keeper::<Pg<false>>(&second, patient(), 10, &ready).start().await.unwrap();
    eventually(PATIENCE, async || site.db.ledger().await.len() == ids.len() - 4).await;
    assert_eq!((narrow.stats().in_flight, narrow.stats().stale), (4, 0));
    gate.open();
    site.settled(&ids).await;
    for executor in [wide, narrow] {
        executor.shutdown(Duration::ZERO).await.unwrap();
    }
    assert_eq!(client.waiting(&site.names().deliveries("default")).await, 0, "it was never done with");
}

/// Long jobs do not wait behind each other on one node while another has slots.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_flush_is_shared_among_all_consumers() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    let gate = Gate::closed();
    let (first, second) = (site.messages().await, site.messages().await);
    let executors = [
        keeper::<Pg<false>>(&first, patient(), 4, &gate).start().await.unwrap(),
        keeper::<Pg<false>>(&second, patient(), 4, &gate).start().await.unwrap(),
    ];
    let queue = site.names().deliveries("default");
    eventually(PATIENCE, async || client.depth(&queue).await.is_some_and(|(_, consumers)| consumers == 2)).await;
    let mut ids = site.warm(&producer, note).await;
    eventually(PATIENCE, async || site.db.ledger().await.len() == ids.len()).await;
    producer.prepare("default").await;
    ids.extend(send(&producer, 8, wait).await);
    site.db.counts(JobState::Running, 8).await;
    for executor in &executors {
        let stats = executor.stats();
        assert_eq!((stats.in_flight, stats.left_to_table), (4, 0), "{stats:?}");
    }
    gate.open();
    site.settled(&ids).await;
    for executor in executors {
        executor.shutdown(Duration::ZERO).await.unwrap();
    }
}

/// Kinds that are unknown here, or have no free slot of their kind, are passed on; the rest runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_kinds_each_fares_by_itself() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    let gate = Gate::closed();
    let first = site.messages().await;
    let executor = keeper::<Pg<false>>(&first, patient(), 10, &gate)
        .kind_options("wait", KindOptions::default().concurrency(1))
        .start()
        .await
        .unwrap();
    let queue = site.names().deliveries("default");
    eventually(PATIENCE, async || client.depth(&queue).await.is_some_and(|(_, consumers)| consumers == 1)).await;
    // No executor polls this queue of the table.
    let mut elsewhere = Vec::new();
    for kind in ["note", "wait", "draw", "wait", "note"] {
        elsewhere.push((producer.send(NewJob::json(kind, &()).queue("elsewhere")).await.unwrap(), 0, kind));
    }
    let (properties, body) = parcel(&site, &elsewhere);
    assert!(client.publish("", &queue, properties, &body).await);
    eventually(PATIENCE, async || site.db.ledger().await.len() == 2).await;
    eventually(PATIENCE, async || executor.stats().left_to_table == 2).await;
    assert_eq!((executor.stats().delivered, executor.stats().stale), (3, 0));
    assert_eq!(site.db.jobs().state(elsewhere[1].0).await, Some(JobState::Running));
    gate.open();
    site.db.gone(elsewhere[1].0).await;
    assert_eq!(site.db.jobs().count(JobState::Waiting).await, 2);
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// Rows that are gone, run, were claimed since or are named twice are stale; those between them run. A delivery that names a single row has the old
/// format.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_taken_already_keep_no_others_back() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    let gate = Gate::closed();
    let elsewhere = site.messages().await;
    let executor = keeper::<Pg<false>>(&elsewhere, patient(), 20, &gate).start().await.unwrap();
    let mut ids = site.warm(&producer, note).await;
    let running = send(&producer, 1, wait).await[0];
    site.db.counts(JobState::Running, 1).await;
    eventually(PATIENCE, async || site.db.ledger().await.len() == ids.len()).await;
    let mut fresh = Vec::new();
    for _ in 0..4 {
        fresh.push(producer.send(note().queue("elsewhere")).await.unwrap());
    }
    site.db.set_counters(fresh[1], 3, 0).await;
    let (gone, stale) = (*ids.last().unwrap(), executor.stats().stale);
    let named = [
        (gone, 0, "note"),
        (fresh[0], 0, "note"),
        (running, 0, "wait"),
        (fresh[1], 2, "note"),
        (fresh[2], 0, "note"),
        (fresh[2], 0, "note"),
        (JobId::new(), 0, "note"),
    ];
    let queue = site.names().deliveries("default");
    let (properties, body) = parcel(&site, &named);
    assert!(client.publish("", &queue, properties, &body).await);
    eventually(PATIENCE, async || executor.stats().stale == stale + 5).await;
    assert_eq!(site.db.jobs().state(fresh[1]).await, Some(JobState::Waiting));
    for (id, version) in [(fresh[1], 3), (fresh[3], 0)] {
        assert!(client.publish("", &queue, pointer("note", id, version), b"").await);
    }
    gate.open();
    ids.push(running);
    ids.extend(fresh);
    site.settled(&ids).await;
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().stale, stale + 5);
}

/// A delivery whose list of further rows is unreadable is rejected whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_whose_rows_cannot_be_read_is_kept_aside() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    let elsewhere = site.messages().await;
    let executor = noting::<Pg<false>>(&elsewhere, patient(), 10).await;
    let mut ids = site.warm(&producer, note).await;
    let (queue, dead) = (site.names().deliveries("default"), site.names().dead());
    let named = producer.send(note().queue("elsewhere")).await.unwrap();
    for (body, reason) in [
        (&b"rubbish"[..], "bad-rows"),
        (br#"[{"id":"7"}]"#, "bad-rows"),
        (br#"[{"id":"0198c0de-0000-7000-8000-000000000002","version":0,"kind":""}]"#, "missing-kind"),
    ] {
        assert!(client.publish("", &queue, pointer("note", named, 0), body).await);
        let refused = client.take(&dead).await;
        assert_eq!((refused.body.as_slice(), refused.header("jobwright-reason").as_deref()), (body, Some(reason)));
    }
    assert_eq!(site.db.jobs().state(named).await, Some(JobState::Waiting), "it ran by a part of it");
    assert!(client.publish("", &queue, pointer("note", named, 0), b"[]").await);
    ids.push(named);
    ids.extend(send(&producer, 10, note).await);
    site.settled(&ids).await;
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().messages_refused, 3);
}

/// A node without free slots gives back its deliveries and gets no more: the queue fills, and senders see that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_node_does_not_pass_everything_on() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    let (gate, messages) = (Gate::closed(), site.messages().await);
    let executor = keeper::<Pg<false>>(&messages, patient(), 1, &gate).start().await.unwrap();
    let mut ids = site.warm(&producer, note).await;
    eventually(PATIENCE, async || site.db.ledger().await.len() == ids.len()).await;
    ids.extend(send(&producer, 1, wait).await);
    site.db.counts(JobState::Running, 1).await;
    // It takes two at most for each slot.
    for _ in 0..4 {
        let mut cx = producer.begin();
        ids.extend((0..4).map(|_| cx.send(wait()).unwrap()));
        assert_eq!(cx.commit_confirmed().await.unwrap().broker, 4);
    }
    eventually(PATIENCE, async || executor.stats().left_to_table == 8).await;
    eventually(PATIENCE, async || client.waiting(&site.names().deliveries("default")).await == 2).await;
    assert_eq!(executor.stats().left_to_table, 8);
    gate.open();
    site.settled(&ids).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!(client.waiting(&site.names().deliveries("default")).await, 0);
}
