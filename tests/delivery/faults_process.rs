//! Processes die during deliveries.

use std::time::Duration;

use jobwright::admin::JobState;

use crate::delivery::site::{Site, keeper, note, noting, send, wait};
use crate::delivery::worker_process::{Orders, Role, create_sent, sent, told};
use crate::support::environment::{Gate, PATIENCE, World, quick};
use crate::support::postgres::Pg;
use crate::support::process::Sign;
use crate::support::proxy::Proxy;
use crate::support::{TestDb, eventually};

/// Jobs that it ran are released with its lease; its unacknowledged deliveries go to others, some of them twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_of_a_killed_executor_run_elsewhere() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, client) = (site.messages().await, site.client().await);
    let (never, tells) = (Sign::new(), Sign::new());
    let role = Role::Executor { concurrency: 250, lease: 1, sign: Some(never.path().to_owned()) };
    let mut victim = Orders::new("victim", role, &site.db.config(), &site.broker(), &tells).start();
    let mut ids = site.warm(&producer, note).await;
    for _ in 0..8 {
        ids.extend(send(&producer, 100, wait).await);
    }
    site.db.counts(JobState::Running, 250).await;
    // Deliveries that came together and found no slot were given back; these come one by one, and wait in memory until their head start ends.
    for _ in 0..60 {
        ids.extend(send(&producer, 1, wait).await);
    }
    let queue = site.names().deliveries("default");
    eventually(PATIENCE, async || client.waiting(&queue).await == 0).await;
    victim.kill();
    let gate = Gate::closed();
    gate.open();
    let second = site.messages().await;
    let rescuer = keeper::<Pg<false>>(&second, quick(), 50, &gate).start().await.unwrap();
    site.settled(&ids).await;
    rescuer.shutdown(Duration::ZERO).await.unwrap();
    assert!(second.broker().unwrap().stats().redelivered >= 10, "{:?}", second.broker().unwrap().stats());
}

/// The rows are committed but the deliveries were never published: the rows are claimed when their head start is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_producer_is_killed_between_commit_and_publish() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    create_sent(&site).await;
    let proxy = Proxy::start(site.address()).await;
    let elsewhere = site.messages().await;
    let executor = noting::<Pg<false>>(&elsewhere, quick(), 10).await;
    let (sign, tells) = (Sign::new(), Sign::new());
    let role = Role::OnceProducer { batch: 50, sign: sign.path().to_owned() };
    let mut victim = Orders::new("victim", role, &site.db.config(), &site.broker_by(proxy.address), &tells).start();
    eventually(PATIENCE, async || told(&tells).up).await;
    site.db.drained().await;
    let (delivered, before) = (executor.stats().delivered, sent(&site).await.len());
    proxy.stall();
    sign.give("");
    eventually(PATIENCE, async || sent(&site).await.len() == before + 50).await;
    victim.kill();
    drop(proxy);
    assert_eq!(site.db.jobs().count(JobState::Waiting).await, 50, "it was not held back");
    site.settled(&sent(&site).await).await;
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().delivered, delivered);
}

/// Executors are killed one after the other while deliveries come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executors_are_killed_again_and_again_under_load() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let producer = site.messages().await;
    let load = crate::delivery::load::Load::start(&producer, 5, Duration::from_millis(20));
    for round in 0..4 {
        let tells = Sign::new();
        let role = Role::Executor { concurrency: 20, lease: 1, sign: None };
        let orders = Orders::new(&format!("victim {round}"), role, &site.db.config(), &site.broker(), &tells);
        let mut victim = orders.start();
        eventually(PATIENCE, async || told(&tells).delivered >= 50).await;
        victim.kill();
    }
    let ids = load.end().await;
    let elsewhere = site.messages().await;
    let rescuer = noting::<Pg<false>>(&elsewhere, quick(), 20).await;
    site.settled(&ids).await;
    rescuer.shutdown(Duration::ZERO).await.unwrap();
}
