//! Databases that are away, cut off, restarted or full.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jobwright::admin::{JobFilter, JobState};
use jobwright::{CommandExecutor, DatabaseConfig, ErrorKind, JobId, MessageServices, NewJob, Outcome};

use crate::faults::ledger_worker::{Does, job, send, start};
use crate::support::environment::{Gate, PATIENCE, World, at_once, lease, quick};
use crate::support::postgres::Pg;
use crate::support::proxy::Proxy;
use crate::support::{TestDb, eventually};

/// Sets short deadlines.
fn hasty(config: DatabaseConfig) -> DatabaseConfig {
    config.call_timeout(Duration::from_secs(2)).connect_timeout(Duration::from_secs(1))
}

/// Connects by a proxy, with short deadlines.
pub(crate) async fn behind(proxy: &Proxy, db: &Pg<false>) -> MessageServices {
    MessageServices::postgres(&hasty(db.config_by(proxy.address))).await.unwrap()
}

/// Sends jobs until it is stopped, whatever happens to its connections, and returns those that were sent for certain. Each job keeps its id over all
/// tries, so a lost answer does not count twice.
struct Producer {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<Vec<JobId>>,
}

impl Producer {
    fn start(messages: MessageServices) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let sent = Arc::new(AtomicUsize::new(0));
        let (stopped, count) = (stop.clone(), sent.clone());
        let task = tokio::spawn(async move {
            let mut ids = Vec::new();
            while !stopped.load(Ordering::SeqCst) {
                let id = JobId::new();
                // In its own transaction: the result of a lost commit is found out, or known to be unknown.
                let send = async || {
                    let mut cx = messages.begin();
                    cx.send(job(Does::Note).max_attempts(1000).id(id))?;
                    cx.transaction().await?;
                    cx.commit().await
                };
                match send().await {
                    Ok(()) => {
                        ids.push(id);
                        count.fetch_add(1, Ordering::SeqCst);
                    }
                    // It may have been stored and even done: that is unknown here, so its effect may or may not exist.
                    Err(error) if error.kind() == ErrorKind::CommitUnknown => panic!("{error:?}"),
                    Err(error) => assert!(error.is_retryable(), "{error:?}"),
                }
                tokio::time::sleep(Duration::from_millis(8)).await;
            }
            ids
        });
        Self { stop, sent, task }
    }

    /// Returns how many were sent so far.
    fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }

    async fn stop(self) -> Vec<JobId> {
        self.stop.store(true, Ordering::SeqCst);
        self.task.await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_server_is_reported_soon_and_without_the_password() {
    // A port that was just closed, and one that accepts connections and never answers.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for address in [closed, silent.local_addr().unwrap()] {
        let config = hasty(DatabaseConfig::url(format!("postgres://user:geheim@{address}/db")));
        let begun = Instant::now();
        let error = MessageServices::postgres(&config).await.err().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        let text = format!("{error} {error:?}");
        assert!(text.contains(&address.to_string()) && !text.contains("geheim"), "{text}");
    }
}

/// Random connections of this program are killed, one after the other, under load.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_killed_one_after_the_other_under_load() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = MessageServices::postgres(&hasty(db.config())).await.unwrap();
    let executor = start::<Pg<false>>(&messages, lease(3), 6, None).await;
    let producer = Producer::start(db.messages().await);
    let client = db.client().await;
    let begun = Instant::now();
    let mut killed = 0;
    // A busy machine takes longer to connect again, and then there is less to kill.
    while begun.elapsed() < Duration::from_secs(5) || killed <= 50 || producer.sent() <= 100 {
        assert!(begun.elapsed() < PATIENCE, "only {killed} connections were killed, and {} jobs sent", producer.sent());
        let sql = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1 \
                   order by random() limit 1";
        killed += client.query(sql, &[&db.schema()]).await.unwrap().len();
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    let ids = producer.stop().await;
    db.drained().await;
    db.each_once(&ids).await;
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
}

/// The database is away for ten seconds, longer than the lease: connections are cut and refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outage_of_ten_seconds_needs_no_restart() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let proxy = Proxy::start(db.address()).await;
    let messages = behind(&proxy, &db).await;
    let executor = start::<Pg<false>>(&messages, lease(2), 6, None).await;
    let producer = Producer::start(db.messages().await);
    eventually(PATIENCE, async || executor.stats().done > 50).await;
    let first = db.jobs().status().await.unwrap().nodes[0].id;

    proxy.down();
    // The sender is not cut off and goes on.
    let before = producer.sent();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(producer.sent() > before + 100);
    proxy.heal();

    let done = executor.stats().done;
    eventually(PATIENCE, async || executor.stats().done > done + 100).await;
    let ids = producer.stop().await;
    db.drained().await;
    db.each_once(&ids).await;
    // It fenced itself, and came back under a new node id.
    assert_eq!(executor.stats().leases_lost, 1);
    let nodes = db.jobs().status().await.unwrap().nodes;
    assert!(nodes.iter().any(|node| node.id != first && !node.dead), "{nodes:?}");
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
}

/// A caller that waits for the end of a job does not have to try again. If it is unknown at the end of the time, that is an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_for_the_end_of_a_job_lasts_through_an_outage() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let proxy = Proxy::start(db.address()).await;
    let messages = behind(&proxy, &db).await;
    let id = messages.send(NewJob::json("for-nobody", &())).await.unwrap();
    assert!(!messages.wait_for_end(id, Duration::ZERO).await.unwrap().is_over());

    proxy.down();
    let error = messages.wait_for_end(id, Duration::from_millis(200)).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    let refused = proxy.refused();
    let waits = tokio::spawn({
        let messages = messages.clone();
        async move { messages.wait_for_end(id, PATIENCE).await }
    });
    eventually(PATIENCE, async || proxy.refused() > refused).await;
    db.jobs().delete(&JobFilter::ids([id]), false).await.unwrap();
    assert!(!waits.is_finished());
    proxy.heal();
    assert!(waits.await.unwrap().unwrap().is_over());

    // A server that says nothing more is an outage too.
    proxy.stall();
    let error = messages.wait_for_end(id, Duration::from_millis(200)).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    proxy.heal();
}

/// The rows are owned by a node that lives and does not know it: no other node would ever release them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_answer_got_lost_is_given_back() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let proxy = Proxy::start(db.address()).await;
    let messages = behind(&proxy, &db).await;
    // A lease that outlives the test: only the node itself can give them back.
    let executor = start::<Pg<false>>(&messages, lease(300), 4, None).await;
    let warm = send::<Pg<false>>(&db.messages().await, Does::Note, 20).await;
    db.drained().await;
    // The claim's parameters name the queue and the kinds; its name and text were sent before.
    proxy.swallow_answer_to("ledger");
    let mut ids = send::<Pg<false>>(&db.messages().await, Does::Note, 20).await;
    eventually(PATIENCE, async || proxy.swallowed() == 1).await;
    db.drained().await;
    ids.extend(warm);
    db.each_once(&ids).await;
    let stats = executor.shutdown(Duration::from_secs(5)).await.unwrap();
    assert_eq!((stats.leases_lost, stats.refused), (0, 0));
}

/// The same for a commit that would have handed its jobs over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_whose_answer_got_lost_is_given_back() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let proxy = Proxy::start(db.address()).await;
    let messages = behind(&proxy, &db).await;
    let executor = start::<Pg<false>>(&messages, lease(300), 4, None).await;
    let mut ids = Vec::new();
    eventually(PATIENCE, async || {
        ids.extend(send::<Pg<false>>(&messages, Does::Note, 1).await);
        executor.stats().handed_over > 0
    })
    .await;
    db.drained().await;
    let id = JobId::new();
    proxy.swallow_answer_to("tell-this-one-apart");
    let error = messages.send(job(Does::Note).id(id).header("mark", "tell-this-one-apart")).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Timeout | ErrorKind::CommitUnknown), "{error}");
    db.drained().await;
    ids.push(id);
    db.each_once(&ids).await;
    let stats = executor.shutdown(Duration::from_secs(5)).await.unwrap();
    assert_eq!((stats.leases_lost, stats.refused), (0, 0));
}

/// Handlers use every connection. Leases are renewed and jobs claimed through others, and a request for one more connection fails in time, with the
/// reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_pool_stops_neither_heartbeats_nor_claims() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let config = Pg::config(&db).max_connections(2).call_timeout(Duration::from_millis(1500));
    let messages = MessageServices::postgres(&config).await.unwrap();
    let gate = Gate::closed();
    let door = gate.clone();
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .queue("default", 10)
        .handle_with("hold", move |cx| {
            let door = door.clone();
            Box::pin(async move {
                let line = cx.job().id.to_string();
                Pg::<false>::note(cx.transaction().await?, &line).await?;
                door.pass().await;
                Ok(Outcome::Done)
            })
        })
        .handle("light", |_| async { Ok(Outcome::Done) })
        .start()
        .await
        .unwrap();
    let held = [
        messages.send(NewJob::json("hold", &1)).await.unwrap(),
        messages.send(NewJob::json("hold", &2)).await.unwrap(),
    ];
    db.counts(JobState::Running, 2).await;
    let client = db.client().await;
    eventually(PATIENCE, async || {
        let sql = "select count(*) from pg_stat_activity where application_name = $1 and state = 'idle in transaction'";
        client.query_one(sql, &[&db.schema()]).await.unwrap().get::<_, i64>(0) == 2
    })
    .await;

    let begun = Instant::now();
    let error = messages.begin().transaction().await.err().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(error.to_string().contains("max_connections"), "{error}");
    // Claims and completions go on, and so did the lease of one second.
    let light = messages.send(NewJob::json("light", &1)).await.unwrap();
    db.gone(light).await;
    assert_eq!(executor.stats().leases_lost, 0);
    gate.open();
    db.drained().await;
    db.each_once(&held).await;
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
}

/// The table is locked: every call ends, and reports that the server's time limit or ours was exceeded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_takes_too_long_is_ended() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let config = Pg::config(&db).call_timeout(Duration::from_secs(1));
    let messages = MessageServices::postgres(&config).await.unwrap();
    let executor = start::<Pg<false>>(&messages, lease(5), 4, None).await;
    let mut client = db.client().await;
    let lock = client.transaction().await.unwrap();
    lock.batch_execute("lock table job in access exclusive mode").await.unwrap();
    let begun = Instant::now();
    let error = messages.send(job(Does::Note)).await.unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    // Busy, if all connections were taken by others that wait for the lock.
    assert!(matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Busy), "{error}");
    lock.rollback().await.unwrap();
    // None of our statements waits on the server beyond its deadline, and work goes on.
    let ids = send::<Pg<false>>(&db.messages().await, Does::Note, 10).await;
    for id in &ids {
        db.gone(*id).await;
    }
    assert_eq!(executor.stats().leases_lost, 0);
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
}

/// Debian's `PgBouncer` crashes when a client disconnects before its cancel request was answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_statements_connection_stays_until_the_server_has_read_the_request() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let proxy = Proxy::start(db.address()).await;
    let here = proxy.address.to_string();
    // With TLS where the server has it; with one of several servers.
    for (host, mode) in
        [(here.clone(), "disable"), (here.clone(), "prefer"), (format!("127.0.0.1:1,{here}"), "disable")]
    {
        let config = hasty(db.config_by(proxy.address));
        let url = format!("{}&sslmode={mode}", config.url.expose().replace(&here, &host));
        let messages = MessageServices::postgres(&config.with_url(url)).await.unwrap();
        let ended = proxy.ended_by_server();
        // Inside a transaction, since a statement that may be committing is never cancelled.
        let mut cx = messages.begin();
        let transaction = cx.transaction().await.unwrap();
        let waiting =
            tokio::time::timeout(Duration::from_millis(300), transaction.execute("select pg_sleep(600)", &[]));
        waiting.await.expect_err("it sleeps");
        drop(cx);
        eventually(PATIENCE, async || proxy.ended_by_server() > ended).await;
    }
}

/// Longer than the deadline of a call, shorter than the lease: outcomes wait for the database, and nothing runs again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcomes_wait_for_an_outage_that_is_shorter_than_the_lease() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let proxy = Proxy::start(db.address()).await;
    let messages = behind(&proxy, &db).await;
    let (gate, runs) = (Gate::closed(), Arc::new(AtomicUsize::new(0)));
    let (door, counted) = (gate.clone(), runs.clone());
    let executor = CommandExecutor::builder(messages)
        .config(lease(60))
        .kind_options("gated", at_once())
        .handle("gated", move |_| {
            let door = door.clone();
            counted.fetch_add(1, Ordering::SeqCst);
            async move {
                door.pass().await;
                Ok(Outcome::Done)
            }
        })
        .start()
        .await
        .unwrap();
    let sender = db.messages().await;
    for n in 0..3 {
        sender.send(NewJob::json("gated", &n)).await.unwrap();
    }
    eventually(PATIENCE, async || runs.load(Ordering::SeqCst) == 3).await;
    proxy.down();
    gate.open();
    // The deadline of a call is 2 s.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(executor.stats().in_flight, 3, "they are in hand until they are recorded");
    proxy.heal();
    db.drained().await;
    let stats = executor.shutdown(Duration::from_secs(5)).await.unwrap();
    assert_eq!((stats.done, stats.leases_lost, stats.refused), (3, 0, 0));
    assert_eq!(runs.load(Ordering::SeqCst), 3, "one ran again");
}
