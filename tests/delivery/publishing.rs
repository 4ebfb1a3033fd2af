//! Which rows a commit publishes, and which it does not.

use std::time::{Duration, Instant};

use jobwright::admin::{JobFilter, JobState};
use jobwright::{CommandExecutor, JobId, MessageServices, NewJob};

use crate::delivery::amqp_client::{Client, Tap, pointer};
use crate::delivery::site::{Site, note, noting, send};
use crate::support::environment::{PATIENCE, World, patient, quick};
use crate::support::postgres::Pg;
use crate::support::{TestDb, eventually};

/// Consumes the queue without an executor: there is a consumer to deliver to, and nothing runs.
async fn tapped<W: World>(site: &Site<W>, client: &Client, prefetch: u16) -> Tap {
    let messages = site.messages().await;
    messages.broker().unwrap().apply(&["default".to_owned()], &[]).await.unwrap();
    client.tap(&site.names().deliveries("default"), prefetch).await
}

/// Sends until messages go through the broker, and takes out those that this needed.
async fn warmed(site: &Site, messages: &MessageServices, tap: &mut Tap) {
    let warm = site.warm(messages, note).await;
    loop {
        let message = tap.next().await;
        tap.ack(&message).await;
        if Some(&message.job()) == warm.last() {
            break;
        }
    }
    site.db.clear().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_reaches_an_executor_elsewhere() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let producer = site.messages().await;
    let elsewhere = site.messages().await;
    // With slots for all of them.
    let executor = noting::<Pg<false>>(&elsewhere, patient(), 100).await;
    let (ids, commits) = delivered_whole(&site, &producer, &executor).await;
    let stats = executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!((stats.claimed, stats.messages_refused), (ids.len() as u64, 0));
    // One message a commit, and one to warm up.
    assert_eq!(producer.broker().unwrap().stats().confirmed, commits + 1);
}

/// Commits 20 jobs at a time until five such commits have started by their deliveries, all of each. On a slow machine the head start of a delivery can be over before
/// it comes, and claims take its jobs. Returns all jobs that were sent, and the number of commits.
async fn delivered_whole<W: World>(
    site: &Site<W>,
    producer: &MessageServices<W::Store>,
    executor: &CommandExecutor<W::Store>,
) -> (Vec<JobId>, u64) {
    let mut ids = site.warm(producer, note).await;
    let (mut commits, mut whole) = (0, 0);
    let start = Instant::now();
    while whole < 5 {
        assert!(start.elapsed() < PATIENCE, "{whole} of {commits} commits came by the broker");
        let before = executor.stats().delivered;
        let mut cx = producer.begin();
        let sent: Vec<JobId> = (0..20).map(|_| cx.send(note()).unwrap()).collect();
        let went = cx.commit_confirmed().await.unwrap();
        assert_eq!((went.executor, went.broker, went.table), (0, 20, 0));
        ids.extend(sent);
        site.settled(&ids).await;
        commits += 1;
        whole += u64::from(executor.stats().delivered == before + 20);
    }
    (ids, commits)
}

/// A free slot in the same process comes first: no way is shorter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_beside_an_executor_needs_no_broker() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let messages = site.messages().await;
    let executor = noting::<Pg<false>>(&messages, patient(), 4).await;
    let mut ids = Vec::new();
    eventually(Duration::from_secs(30), async || {
        let mut cx = messages.begin();
        ids.push(cx.send(note()).unwrap());
        cx.commit_confirmed().await.unwrap().executor == 1
    })
    .await;
    site.settled(&ids).await;
    assert!(executor.shutdown(Duration::ZERO).await.unwrap().handed_over >= 1);
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_embedded_database_delivers_too() {
    use crate::support::sqlite::SqliteDb;
    let Some(site) = Site::<SqliteDb>::open().await else { return };
    let producer = site.messages().await;
    let elsewhere = site.messages().await;
    let executor = noting::<SqliteDb>(&elsewhere, patient(), 100).await;
    delivered_whole(&site, &producer, &executor).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// Until the database has committed, nothing is published: the next message in the queue is the next real commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_published_without_a_commit() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    site.db.raw("create table {schema}.strict (n int primary key deferrable initially deferred)").await;
    let mut tap = tapped(&site, &client, 0).await;
    warmed(&site, &producer, &mut tap).await;

    let mut dropped = producer.begin();
    dropped.send(note()).unwrap();
    drop(dropped);
    let mut rolled_back = producer.begin();
    rolled_back.transaction().await.unwrap().execute("select 1", &[]).await.unwrap();
    rolled_back.send(note()).unwrap();
    rolled_back.rollback().await.unwrap();
    // The server detects it only at the commit.
    let mut conflict = producer.begin();
    let insert = "insert into strict (n) values (1), (1)";
    conflict.transaction().await.unwrap().execute(insert, &[]).await.unwrap();
    conflict.send(note()).unwrap();
    assert!(conflict.commit().await.is_err());
    // Here it answers with a rollback instead of an error.
    let mut aborted = producer.begin();
    aborted.send(note()).unwrap();
    assert!(aborted.transaction().await.unwrap().execute("select 1 / 0", &[]).await.is_err());
    assert!(aborted.commit().await.is_err());
    let before = producer.broker().unwrap().stats().confirmed;

    let mut good = producer.begin();
    let id = good.send(note()).unwrap();
    assert_eq!(good.commit_confirmed().await.unwrap().broker, 1);
    let next = tap.next().await;
    assert_eq!(next.job(), id, "something else was published");
    assert_eq!(producer.broker().unwrap().stats().confirmed, before + 1);
    assert_eq!(site.db.jobs().all().await.len(), 1);
    // A delivery carries no payload.
    assert_eq!((next.version(), next.body.as_slice()), (0, [].as_slice()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prioritised_delayed_or_unconsumed_jobs_stay_in_the_table() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    let mut tap = tapped(&site, &client, 0).await;
    warmed(&site, &producer, &mut tap).await;
    // So that the queue is known to have no consumers.
    producer.send(note().queue("nobody")).await.unwrap();
    let mut cx = producer.begin();
    cx.send(note().priority(1)).unwrap();
    cx.send(note().priority(-1)).unwrap();
    cx.send(note().delay(Duration::from_secs(60))).unwrap();
    cx.send(note().queue("nobody")).unwrap();
    let id = cx.send(note()).unwrap();
    cx.send(NewJob::event("happened", &1)).unwrap();
    let went = cx.commit_confirmed().await.unwrap();
    assert_eq!((went.executor, went.broker, went.table), (0, 1, 5));
    assert_eq!(tap.next().await.job(), id);
    assert_eq!(client.depth(&site.names().deliveries("nobody")).await, None, "a queue was made for nobody");
}

/// Jobs that the broker refuses wait in the table and are announced there, so nothing waits for a head start to end: the executor never polls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_sends_the_rest_by_the_table() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let config = site.broker().depth(10);
    let (producer, client) = (site.messages_with(&config).await, site.client().await);
    let broker = producer.broker().unwrap().clone();
    broker.apply(&["default".to_owned()], &[]).await.unwrap();
    // It takes one message and keeps it.
    let mut tap = client.tap(&site.names().deliveries("default"), 1).await;
    let mut ids = site.warm(&producer, note).await;
    tap.next().await;
    let mut refused = 0;
    eventually(Duration::from_secs(30), async || {
        let mut cx = producer.begin();
        ids.extend((0..20).map(|_| cx.send(note()).unwrap()));
        let went = cx.commit_confirmed().await.unwrap();
        assert_eq!(went.broker + went.table, 20);
        refused += went.table;
        refused >= 200
    })
    .await;
    assert!(broker.stats().nacked > 0, "{:?}", broker.stats());
    assert!(client.waiting(&site.names().deliveries("default")).await < 100);
    tap.close().await;
    let elsewhere = site.messages_with(&config).await;
    let start = Instant::now();
    let executor = noting::<Pg<false>>(&elsewhere, patient(), 10).await;
    site.settled(&ids).await;
    tracing::debug!(took = ?start.elapsed());
    let stats = executor.shutdown(Duration::ZERO).await.unwrap();
    assert!(stats.delivered > 0 && stats.claimed - stats.delivered >= 200, "{stats:?}");
}

/// A lost delivery delays its row by the head start, and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_row_is_claimed_when_its_hold_ends_and_not_before() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    let mut tap = tapped(&site, &client, 0).await;
    warmed(&site, &producer, &mut tap).await;
    let start = Instant::now();
    let mut cx = producer.begin();
    let held = cx.send(note()).unwrap();
    let by_table = cx.send(note().priority(-1)).unwrap();
    assert_eq!(cx.commit_confirmed().await.unwrap().broker, 1);
    let message = tap.next().await;
    // Acked and ignored.
    tap.ack(&message).await;
    tap.close().await;
    let elsewhere = site.messages().await;
    let executor = noting::<Pg<false>>(&elsewhere, quick(), 10).await;
    site.db.gone(by_table).await;
    assert_eq!(site.db.jobs().state(held).await, Some(JobState::Waiting));
    assert!(start.elapsed() < Duration::from_secs(5), "too slow to tell anything");
    site.db.gone(held).await;
    assert!(start.elapsed() >= Duration::from_millis(4900), "claimed after {:?}", start.elapsed());
    site.db.each_once(&[held, by_table]).await;
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().delivered, 0);
}

/// A transaction that the caller owns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "the caller commits its own transaction")]
async fn an_enlisted_message_is_delivered_after_the_callers_commit() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    let mut tap = tapped(&site, &client, 0).await;
    warmed(&site, &producer, &mut tap).await;
    let mut connection = site.db.client().await;

    let transaction = connection.transaction().await.unwrap();
    let mut enlisted = producer.enlist(&transaction);
    enlisted.send(note()).unwrap();
    drop(enlisted.flush().await.unwrap());
    transaction.rollback().await.unwrap();

    let transaction = connection.transaction().await.unwrap();
    let mut enlisted = producer.enlist(&transaction);
    let id = enlisted.send(note()).unwrap();
    let flushed = enlisted.flush().await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(flushed.committed().settled().await.broker, 1);
    assert_eq!(tap.next().await.job(), id);
}

/// On the embedded database enlisting takes no `await`, so it may be done on a thread without a runtime.
#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_without_a_runtime_may_enlist() {
    use crate::support::sqlite::SqliteDb;
    let Some(site) = Site::<SqliteDb>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    let mut tap = tapped(&site, &client, 0).await;
    producer.prepare("default").await;
    let (sender, connection) = (producer.clone(), site.db.connection());
    let sending = std::thread::spawn(move || {
        connection.execute_batch("begin immediate").unwrap();
        let mut enlisted = sender.enlist(&connection);
        let id = enlisted.send(note()).unwrap();
        // The first check of a queue starts a task, too.
        enlisted.send(note().queue("elsewhere")).unwrap();
        let flushed = enlisted.flush().unwrap();
        connection.execute_batch("commit").unwrap();
        drop(flushed.committed());
        id
    });
    let id = tokio::task::spawn_blocking(move || sending.join().expect("the thread panicked")).await.unwrap();
    assert_eq!(tap.next().await.job(), id);
}

/// A program that ends right after a commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wake_ups_sent_waits_for_the_confirms() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    let mut tap = tapped(&site, &client, 1).await;
    warmed(&site, &producer, &mut tap).await;
    let before = producer.broker().unwrap().stats().confirmed;
    send(&producer, 100, note).await;
    producer.wake_ups_sent().await;
    assert_eq!(producer.broker().unwrap().stats().confirmed, before + 4, "32 a message");
}

/// Deliveries that are repeated, out of date, or name a missing job run nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_that_are_stale_run_nothing() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    let elsewhere = site.messages().await;
    let executor = noting::<Pg<false>>(&elsewhere, patient(), 10).await;
    let mut ids = site.warm(&producer, note).await;
    site.db.drained().await;
    let queue = site.names().deliveries("default");
    let delivered = executor.stats().delivered;

    // Again, several times.
    let again = *ids.last().unwrap();
    for _ in 0..10 {
        assert!(client.publish("", &queue, pointer("note", again, 0), b"").await);
    }
    // For a job that never existed.
    assert!(client.publish("", &queue, pointer("note", JobId::new(), 0), b"").await);
    // For an earlier claim of a job that waits again. The executor does not poll that queue, so only a delivery can start the job.
    let older = producer.send(note().queue("elsewhere")).await.unwrap();
    site.db.set_counters(older, 3, 0).await;
    assert!(client.publish("", &queue, pointer("note", older, 2), b"").await);
    // For a job that was cancelled.
    let cancelled = producer.send(note().queue("elsewhere")).await.unwrap();
    site.db.jobs().cancel(&JobFilter::ids([cancelled]), false).await.unwrap();
    assert!(client.publish("", &queue, pointer("note", cancelled, 0), b"").await);

    eventually(Duration::from_secs(30), async || executor.stats().stale == 13).await;
    assert_eq!(executor.stats().delivered, delivered);
    assert_eq!(site.db.jobs().state(older).await, Some(JobState::Waiting));
    // The current one.
    assert!(client.publish("", &queue, pointer("note", older, 3), b"").await);
    ids.push(older);
    site.settled(&ids).await;
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().stale, 13);
}

/// A message that is no delivery is rejected, and the consumer goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rubbish_among_deliveries_is_kept_aside() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    let elsewhere = site.messages().await;
    let executor = noting::<Pg<false>>(&elsewhere, patient(), 10).await;
    let mut ids = site.warm(&producer, note).await;
    let queue = site.names().deliveries("default");
    let properties = lapin::BasicProperties::default().with_message_id("no uuid".into());
    assert!(client.publish("", &queue, properties, b"rubbish").await);
    let dead = client.take(&site.names().dead()).await;
    assert_eq!((dead.text().as_str(), dead.header("jobwright-reason").as_deref()), ("rubbish", Some("missing-id")));
    ids.extend(send(&producer, 10, note).await);
    site.settled(&ids).await;
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().messages_refused, 1);
}

/// It is one job, that of the first message, and goes the way of that one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_given_id_that_is_sent_twice_goes_one_way() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let producer = site.messages().await;
    let executor = noting::<Pg<false>>(&site.messages().await, patient(), 100).await;
    let mut ids = site.warm(&producer, note).await;
    for (first, deliveries) in [(note(), 1), (note().priority(5), 0), (note().delay(Duration::from_millis(50)), 0)] {
        let id = JobId::new();
        let mut cx = producer.begin();
        cx.send(first.id(id)).unwrap();
        cx.send(note().id(id)).unwrap();
        assert_eq!(cx.commit_confirmed().await.unwrap().broker, deliveries);
        ids.push(id);
    }
    site.settled(&ids).await;
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
}
