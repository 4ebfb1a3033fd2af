//! What costs a node its lease, and what does not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jobwright::admin::JobState;
use jobwright::{CommandExecutor, DatabaseConfig, ExecutorConfig, MessageServices, NewJob, Outcome};

use crate::faults::faults_database::behind;
use crate::faults::ledger_worker::{Does, send, start};
use crate::support::TestDb;
use crate::support::environment::{Gate, PATIENCE, World, at_once, lease, noting_behind, quick};
use crate::support::logs::Logs;
use crate::support::postgres::Pg;
use crate::support::private_pg::PrivatePg;
use crate::support::proxy::Proxy;
use crate::support::{eventually, postgres_url};

/// Connections stay open and no byte passes, for longer than the lease: the node must stop before others take over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_open_network_makes_the_node_fence_itself() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let proxy = Proxy::start(db.address()).await;
    let messages = behind(&proxy, &db).await;
    let gate = Gate::closed();
    let running = Arc::new(AtomicUsize::new(0));
    let (entered, waiting) = (running.clone(), gate.clone());
    /// Counts running handlers, however they end.
    struct Here(Arc<AtomicUsize>);
    impl Drop for Here {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick().lease(Duration::from_secs(6)))
        .kind_options("ledger", at_once())
        .handle_with("ledger", move |cx| {
            let (entered, waiting) = (entered.clone(), waiting.clone());
            Box::pin(async move {
                entered.fetch_add(1, Ordering::SeqCst);
                let _here = Here(entered);
                let line = cx.job().id.to_string();
                Pg::<false>::note(cx.transaction().await?, &line).await?;
                waiting.pass().await;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    let ids = send::<Pg<false>>(&messages, Does::Note, 4).await;
    // Not before each has written: a handler that waits for an answer would end without it.
    gate.waiting(4).await;
    assert_eq!(running.load(Ordering::SeqCst), 4);
    proxy.stall();
    // By the database's clock. No renewal gets through any more.
    let left = db.jobs().status().await.unwrap().nodes[0].lease_seconds_left;
    let over = Instant::now() + Duration::from_secs_f64(left);
    eventually(PATIENCE, async || running.load(Ordering::SeqCst) == 0).await;
    // A tenth of the lease before its end, and half of that for a busy machine.
    let early = over.saturating_duration_since(Instant::now());
    assert!(early > Duration::from_millis(300), "stopped {early:?} before others may begin");

    // Others take over meanwhile.
    let rescuer = start::<Pg<false>>(&db.messages().await, lease(1), 4, None).await;
    db.drained().await;
    db.each_once(&ids).await;
    rescuer.shutdown(Duration::ZERO).await.unwrap();
    gate.open();
    proxy.heal();
    eventually(PATIENCE, async || executor.stats().leases_lost == 1).await;
    let mut all = ids;
    all.extend(send::<Pg<false>>(&db.messages().await, Does::Note, 4).await);
    db.drained().await;
    db.each_once(&all).await;
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
}

/// A process that fenced itself and lives did not die. Its jobs go back without a recorded death, and even one without attempts left runs again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_was_lost_counts_no_death() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let proxy = Proxy::start(db.address()).await;
    let messages = behind(&proxy, &db).await;
    let gate = Gate::closed();
    let executor = start_at::<Pg<false>>(&messages, lease(2), &gate).await;
    let sent = db.messages().await.send(NewJob::json("gated", &()).max_attempts(1)).await.unwrap();
    gate.waiting(1).await;
    proxy.stall();
    eventually(PATIENCE, async || gate.nobody_waits()).await;
    gate.open();
    proxy.heal();
    db.drained().await;
    db.each_once(&[sent]).await;
    assert_eq!(executor.stats().leases_lost, 1);
    let released = executor.telemetry().metrics().released;
    assert_eq!((released["lease_lost"], released["stopping"]), (1, 0), "{released:?}");
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
}

/// An outage shorter than the lease costs nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_stall_costs_no_lease_and_no_attempt() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let proxy = Proxy::start(db.address()).await;
    let messages = behind(&proxy, &db).await;
    let executor = start::<Pg<false>>(&messages, lease(10), 4, None).await;
    let node = db.jobs().status().await.unwrap().nodes[0].id;
    let mut ids = Vec::new();
    for round in 0..3 {
        ids.extend(send::<Pg<false>>(&db.messages().await, Does::Note, 50).await);
        match round {
            0 => proxy.stall(),
            1 => proxy.cut(),
            _ => proxy.slow(Duration::from_millis(20)),
        }
        tokio::time::sleep(Duration::from_millis(700)).await;
        proxy.heal();
        db.drained().await;
    }
    db.each_once(&ids).await;
    assert_eq!(executor.stats().leases_lost, 0);
    assert_eq!(db.jobs().status().await.unwrap().nodes[0].id, node);
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
}

/// A handler blocks all threads of the application's runtime for longer than the lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocked_threads_do_not_cost_the_lease() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .handle_with("block", |cx| {
            Box::pin(async move {
                let line = cx.job().id.to_string();
                Pg::<false>::note(cx.transaction().await?, &line).await?;
                // Wrong in an async handler.
                std::thread::sleep(Duration::from_secs(2));
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    let mut cx = messages.begin();
    let ids: Vec<_> = (0..4).map(|n| cx.send(NewJob::json("block", &n)).unwrap()).collect();
    cx.commit().await.unwrap();
    // Another node, in its own runtime, would release the jobs of this one.
    let watcher = crate::faults::ledger_worker::Orders::new(&db.config(), "watcher").start();
    db.drained().await;
    db.each_once(&ids).await;
    let stats = executor.shutdown(Duration::from_secs(5)).await.unwrap();
    assert_eq!((stats.leases_lost, stats.refused, stats.done), (0, 0, 4));
    drop(watcher);
}

/// A handler blocks the only thread of a node for ever. The lease would be renewed for ever too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_that_stands_still_gives_up_the_lease() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let config = db.config();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (started, starts) = std::sync::mpsc::channel();
    let released = Mutex::new(released);
    let stuck = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async move {
            let messages = MessageServices::postgres(&config).await.unwrap();
            let executor = CommandExecutor::builder(messages)
                .config(quick().stall_timeout(Duration::from_secs(3)))
                .handle("stuck", move |_| {
                    started.send(()).unwrap();
                    // A dropped sender ends it.
                    let _ = released.lock().unwrap().recv();
                    async { Ok(Outcome::Done) }
                })
                .start()
                .await
                .unwrap();
            eventually(PATIENCE, async || executor.stats().leases_lost == 1).await;
            executor.shutdown(Duration::from_secs(5)).await.unwrap()
        })
    });
    let messages = db.messages().await;
    messages.send(NewJob::json("stuck", &1)).await.unwrap();
    tokio::task::spawn_blocking(move || starts.recv().unwrap()).await.unwrap();
    let rescuer = CommandExecutor::builder(messages)
        .config(quick())
        .handle("stuck", |_| async { Ok(Outcome::Done) })
        .start()
        .await
        .unwrap();
    eventually(PATIENCE, async || rescuer.stats().done == 1).await;
    drop(release);
    let stats = tokio::task::spawn_blocking(move || stuck.join().unwrap()).await.unwrap();
    assert_eq!((stats.leases_lost, stats.done), (1, 0), "its outcome was accepted");
    rescuer.shutdown(Duration::from_secs(5)).await.unwrap();
}

/// Creates a database on a server of its own, and a role that may have this many connections. The configuration is that role's.
async fn with_few_connections(limit: usize) -> (PrivatePg, Pg<false>, DatabaseConfig) {
    let server = PrivatePg::start();
    let db = Pg::<false>::create_on(&server.url()).await;
    db.raw(&format!(
        "create role few login connection limit {limit};
         grant all on schema {{schema}} to few;
         grant all on all tables in schema {{schema}} to few;
         grant all on all sequences in schema {{schema}} to few"
    ))
    .await;
    let config = World::config(&db);
    let url = config.url.expose().replace("postgres@", "few@");
    (server, db, config.with_url(url))
}

/// Counts the starts of a job of this length, the only job beside many short ones, on a node with this lease.
async fn starts_beside_others(
    db: &Pg<false>,
    messages: &MessageServices,
    lease: ExecutorConfig,
    takes: Duration,
) -> usize {
    let starts = Arc::new(AtomicUsize::new(0));
    let counted = starts.clone();
    let executor = CommandExecutor::builder(messages.clone())
        .config(lease.poll_interval(Duration::from_millis(100)))
        .queue("default", 20)
        .handle_with("long", move |_| {
            let counted = counted.clone();
            Box::pin(async move {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(takes).await;
                Ok(Outcome::Done)
            })
        })
        .handle_with("short", |_| Box::pin(async { Ok(Outcome::Done) }))
        .start()
        .await
        .unwrap();
    let sender = db.messages().await;
    let mut cx = sender.begin();
    cx.send(NewJob::json("long", &())).unwrap();
    for n in 0..300 {
        cx.send(NewJob::json("short", &n)).unwrap();
    }
    cx.commit().await.unwrap();
    db.drained().await;
    let stats = executor.shutdown(Duration::from_secs(5)).await.unwrap();
    assert_eq!(stats.leases_lost, 0);
    starts.load(Ordering::SeqCst)
}

/// The heartbeat has its connection before the node takes work, which uses up the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_connections_do_not_cost_the_lease() {
    if postgres_url().is_none() {
        return;
    }
    let (_server, db, config) = with_few_connections(4).await;
    let messages = MessageServices::postgres(&config).await.unwrap();
    assert_eq!(starts_beside_others(&db, &messages, lease(2), Duration::from_secs(7)).await, 1);
}

/// A node whose lease can't be renewed takes nothing, though its claims would succeed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_claimed_before_the_first_renewal() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    db.raw(
        "create sequence {schema}.refusals;
         create table {schema}.refusing ();
         insert into {schema}.refusing default values;
         create function {schema}.refuse() returns trigger language plpgsql as $refuse$
         begin
             if exists (select from {schema}.refusing) then
                 perform nextval('{schema}.refusals');
                 raise exception 'not now' using errcode = 'serialization_failure';
             end if;
             return new;
         end
         $refuse$;
         create trigger refuse before update on {schema}.node for each row execute function {schema}.refuse()",
    )
    .await;
    let messages = db.messages().await;
    let ids = send::<Pg<false>>(&messages, Does::Note, 4).await;
    let executor = start::<Pg<false>>(&messages, lease(10), 4, None).await;
    let refusals = format!("select case when is_called then last_value else 0 end from {}.refusals", db.schema());
    let client = db.client().await;
    eventually(PATIENCE, async || client.query_one(&refusals, &[]).await.unwrap().get::<_, i64>(0) >= 3).await;
    assert_eq!(db.jobs().count(JobState::Waiting).await, 4);
    assert_eq!(executor.stats().claimed, 0);
    db.raw("delete from {schema}.refusing").await;
    db.drained().await;
    db.each_once(&ids).await;
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
}

/// The server has no connection for the heartbeat from the start. The engine lends its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_lends_the_heartbeat_a_connection() {
    if postgres_url().is_none() {
        return;
    }
    let logs = Logs::capture();
    let (_server, db, config) = with_few_connections(10).await;
    let messages = MessageServices::postgres(&config).await.unwrap();
    // Those that are open stay.
    db.raw("alter role few connection limit 0").await;
    assert_eq!(starts_beside_others(&db, &messages, lease(2), Duration::from_secs(7)).await, 1);
    let lent = logs.about("the engine lends it one", "WARN");
    assert_eq!(lent.len(), 1, "{lent:#?}");
}

/// Starts an executor whose jobs, of the kind `gated`, wait at a gate and then write a line.
async fn start_at<W: World>(
    messages: &MessageServices<W::Store>,
    config: ExecutorConfig,
    gate: &Gate,
) -> CommandExecutor<W::Store> {
    CommandExecutor::builder(messages.clone())
        .config(config.poll_interval(Duration::from_millis(100)))
        .handle_with("gated", noting_behind::<W>(gate))
        .start()
        .await
        .unwrap()
}
