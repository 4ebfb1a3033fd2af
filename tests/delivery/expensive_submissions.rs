//! Submissions that cost more than they seem to: with many values, beyond the size limit, or fatal to the process that stores them.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use jobwright::admin::JobState;
use jobwright::{JobId, MessageServices};
use lapin::BasicProperties;

use crate::delivery::amqp_client::headers;
use crate::delivery::site::{Site, noting};
use crate::support::environment::{PATIENCE, patient};
use crate::support::postgres::Pg;
use crate::support::{TestDb, eventually};

/// Returns properties of a submission for a queue without executors.
fn shelved(id: JobId, kind: &str) -> BasicProperties {
    BasicProperties::default()
        .with_message_id(id.to_string().as_str().into())
        .with_type(kind.into())
        .with_headers(headers([("queue", "shelf")]))
}

/// Returns the memory of this process, and the peak since the last call, in MiB.
pub(crate) fn memory() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let of = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_matches(|c: char| !c.is_ascii_digit()).parse::<u64>().unwrap() / 1024
    };
    (of("VmRSS:"), of("VmHWM:"))
}

/// A server spends a hundred bytes on each of these values; a batch of such documents once had a server killed for its memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_of_many_values_arrive() {
    const COUNT: usize = 60;
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (client, names) = (site.client().await, site.names());
    let messages = site.messages().await;
    messages.broker().unwrap().apply(&[], &[]).await.unwrap();
    let body = format!("[{}1]", "[],".repeat(349_000)).into_bytes();
    for _ in 0..COUNT / 4 {
        let some = (0..4).map(|_| (shelved(JobId::new(), "note"), body.clone()));
        client.publish_all(&names.submit(), some.collect()).await;
    }
    let (before, _) = memory();
    let executor = noting::<Pg<false>>(&messages, patient(), 1).await;
    eventually(PATIENCE * 4, async || executor.stats().submitted == COUNT as u64).await;
    let (_, most) = memory();
    assert!(most < before + 300, "{before} MiB before, {most} MiB meanwhile");
    assert_eq!((client.waiting(&names.rejected()).await, executor.stats().messages_refused), (0, 0));
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// A broker may accept larger bodies than we do: RabbitMQ 4 takes 16 MiB, earlier ones 128. Here they arrive while the prefetch window is wide.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_beyond_the_limit_wait_in_the_broker() {
    const COUNT: u32 = 24;
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (client, names) = (site.client().await, site.names());
    let messages = site.messages().await;
    messages.broker().unwrap().apply(&[], &[]).await.unwrap();
    let executor = noting::<Pg<false>>(&messages, patient(), 1).await;
    let send = async |body: &[u8]| {
        assert!(client.publish("", &names.submit(), shelved(JobId::new(), "note"), body).await);
    };
    send(b"1").await;
    eventually(PATIENCE, async || executor.stats().submitted == 1).await;
    // While this lock is held, nothing is stored.
    let mut database = site.db.client().await;
    let lock = database.transaction().await.unwrap();
    lock.batch_execute("lock table job in share mode").await.unwrap();
    send(b"1").await;
    eventually(PATIENCE, async || client.waiting(&names.submit()).await == 0).await;
    for _ in 0..COUNT {
        send(&vec![b'1'; 1024 * 1024 + 1]).await;
    }
    let left = client.waiting(&names.submit()).await;
    assert!(left >= COUNT / 2, "{left} of {COUNT} wait in the broker");
    lock.rollback().await.unwrap();
    send(b"1").await;
    eventually(PATIENCE, async || executor.stats().submitted == 3).await;
    eventually(PATIENCE, async || client.waiting(&names.rejected()).await == COUNT).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// From now on, storing anything of the kind `poison` has this effect.
async fn poisoned(site: &Site, effect: &str) {
    let sql = format!(
        "create function never() returns trigger language plpgsql as $$ begin
           if new.kind = 'poison' then {effect}; end if;
           return new;
         end $$;
         create trigger never before insert on job for each row execute function never();"
    );
    site.db.client().await.batch_execute(&sql).await.unwrap();
}

/// The one in the middle is refused; the others are stored, and so are later ones.
async fn one_is_refused(effect: &str, code: &str) {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (client, names) = (site.client().await, site.names());
    let messages = site.messages().await;
    messages.broker().unwrap().apply(&[], &[]).await.unwrap();
    poisoned(&site, effect).await;
    let poison = JobId::new();
    let mut all: Vec<_> = (0..20).map(|_| (shelved(JobId::new(), "note"), b"1".to_vec())).collect();
    all.insert(10, (shelved(poison, "poison"), b"1".to_vec()));
    client.publish_all(&names.submit(), all).await;
    let executor = noting::<Pg<false>>(&messages, patient(), 1).await;
    eventually(PATIENCE, async || site.db.jobs().count(JobState::Waiting).await == 20).await;
    let kept = client.take(&names.rejected()).await;
    assert_eq!(kept.properties.message_id().as_ref().unwrap().as_str(), poison.to_string());
    assert_eq!(kept.header("jobwright-reason").as_deref(), Some("not-stored"));
    assert!(kept.header("jobwright-error").unwrap().contains(code), "{:?}", kept.header("jobwright-error"));
    client.publish_all(&names.submit(), vec![(shelved(JobId::new(), "note"), b"1".to_vec())]).await;
    eventually(PATIENCE, async || executor.stats().submitted == 21).await;
    eventually(PATIENCE, async || client.waiting(&names.submit()).await == 0).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_that_ends_its_connection_is_refused_and_its_neighbours_are_stored() {
    one_is_refused("perform pg_terminate_backend(pg_backend_pid())", "JW-UNREACHABLE").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_that_is_put_off_for_ever_is_refused_and_its_neighbours_are_stored() {
    one_is_refused("raise exception 'not now' using errcode = '40001'", "JW-ABORTED").await;
}

/// An index is built, or a table rewritten, while the database answers everything else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_against_writes_is_waited_out_and_blamed_on_no_submission() {
    for table in ["submission", "job"] {
        let Some(site) = Site::<Pg<false>>::open().await else { return };
        let (client, names) = (site.client().await, site.names());
        let database = site.db.config_by(site.db.address()).call_timeout(Duration::from_secs(1));
        let messages = MessageServices::postgres(&database).await.unwrap();
        let messages = site.with_broker(messages, &site.broker()).await;
        messages.broker().unwrap().up_within(PATIENCE).await.unwrap();
        messages.broker().unwrap().apply(&[], &[]).await.unwrap();
        let mut other = site.db.client().await;
        let lock = other.transaction().await.unwrap();
        lock.batch_execute(&format!("lock table {table} in share mode")).await.unwrap();
        let executor = noting::<Pg<false>>(&messages, patient(), 1).await;
        client.publish_all(&names.submit(), vec![(shelved(JobId::new(), "note"), b"1".to_vec())]).await;
        // More than one message was tried.
        let aside = site.db.client().await;
        let mut waited = HashSet::new();
        eventually(PATIENCE, async || {
            let sql = "select virtualtransaction from pg_locks where relation = to_regclass($1) and not granted";
            waited.extend(aside.query(sql, &[&table]).await.unwrap().iter().map(|row| row.get::<_, String>(0)));
            waited.len() > 5
        })
        .await;
        lock.rollback().await.unwrap();
        eventually(PATIENCE, async || executor.stats().submitted == 1).await;
        assert_eq!((executor.stats().messages_refused, client.waiting(&names.rejected()).await), (0, 0));
        executor.shutdown(Duration::ZERO).await.unwrap();
    }
}

/// Messages that can't be stored as rejected are given back, and the broker delivers them again at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_can_not_be_rejected_are_redelivered_with_growing_pauses() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (client, names) = (site.client().await, site.names());
    site.messages().await.broker().unwrap().apply(&[], &[]).await.unwrap();
    client.delete(&names.rejected()).await;
    let messages = site.messages_with(&site.broker().declare(false)).await;
    messages.broker().unwrap().up_within(PATIENCE).await.unwrap();
    let executor = noting::<Pg<false>>(&messages, patient(), 1).await;
    client.publish_all(&names.submit(), vec![(BasicProperties::default(), b"rubbish".to_vec())]).await;
    let mut seen = Vec::new();
    eventually(PATIENCE, async || {
        if messages.broker().unwrap().stats().redelivered > seen.len() as u64 {
            seen.push(Instant::now());
        }
        seen.len() == 6
    })
    .await;
    let (early, late) = (seen[1] - seen[0], seen[5] - seen[4]);
    assert!(late > early * 3, "{early:?}, then {late:?}");
    executor.shutdown(Duration::ZERO).await.unwrap();
}
