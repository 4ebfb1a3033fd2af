//! The broker fails: a private one, which is stopped, killed, wiped and alarmed during work.
//!
//! A broker is slow to start, so a test applies several faults to the same one; each step names its fault.

use std::time::Duration;

use jobwright::{BrokerMode, CommandExecutor, ExternalQueue, JobId, MessageServices, NewJob};

use crate::delivery::load::Load;
use crate::delivery::site::{Site, brisk, keeper, note, send};
use crate::support::environment::{Gate, PATIENCE, World};
use crate::support::eventually;
use crate::support::logs::Logs;
use crate::support::postgres::Pg;
use crate::support::private_rabbit::PrivateRabbit;

/// For steps in which the broker itself is slow.
const LONG: Duration = Duration::from_secs(60);

/// A producer, and an executor elsewhere that also relays and hands out.
struct Scene {
    site: Site,
    producer: MessageServices,
    elsewhere: MessageServices,
    executor: CommandExecutor,
    ids: Vec<JobId>,
}

impl Scene {
    async fn open(rabbit: &PrivateRabbit) -> Option<Self> {
        let site = Site::<Pg<false>>::on(rabbit.url()).await?;
        let producer = site.messages_with(&site.broker()).await;
        let elsewhere = site.messages_with(&site.broker()).await;
        let gate = Gate::closed();
        gate.open();
        let executor = keeper::<Pg<false>>(&elsewhere, brisk(), 10, &gate)
            .external_queue(ExternalQueue::new("paint").lease(Duration::from_secs(60)))
            .start()
            .await
            .unwrap();
        Some(Self { site, producer, elsewhere, executor, ids: Vec::new() })
    }

    /// Waits until both ends know that deliveries do not go through.
    async fn cut_off(&self) {
        for messages in [&self.producer, &self.elsewhere] {
            eventually(LONG, async || !messages.broker().unwrap().mode().is_up()).await;
        }
    }

    /// Waits until deliveries go through again, without intervention, and asserts that each job was done once.
    async fn resumed(&mut self) {
        for messages in [&self.producer, &self.elsewhere] {
            messages.broker().unwrap().up_within(LONG).await.unwrap();
        }
        let before = self.executor.stats().delivered;
        self.ids.extend(self.site.warm(&self.producer, note).await);
        eventually(LONG, async || self.executor.stats().delivered > before + 20).await;
    }

    /// Asserts that work goes on.
    async fn works(&self, count: usize) {
        let before = self.site.db.ledger().await.len();
        eventually(PATIENCE, async || self.site.db.ledger().await.len() >= before + count).await;
    }

    fn load(&self) -> Load {
        Load::start(&self.producer, 5, Duration::from_millis(20))
    }

    async fn end(mut self, load: Load) {
        self.ids.extend(load.end().await);
        self.site.settled(&self.ids).await;
        let stats = self.executor.shutdown(Duration::ZERO).await.unwrap();
        assert_eq!((stats.refused, stats.leases_lost), (0, 0), "{stats:?}");
    }
}

fn blocking<T>(call: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(call)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn absent_at_the_start_then_started_then_stopped_and_started_under_load() {
    let mut rabbit = PrivateRabbit::new();
    let Some(mut scene) = Scene::open(&rabbit).await else { return };
    // Absent: everything works through the table.
    scene.cut_off().await;
    let sent = send(&scene.producer, 50, note).await;
    scene.site.settled(&sent).await;
    scene.ids.extend(sent);
    assert_eq!(scene.executor.stats().delivered, 0);
    // Outgoing messages wait, and no job is handed out.
    for n in 0..10 {
        scene.producer.send(NewJob::event("happened", &n)).await.unwrap();
    }
    // Started later: no executor is restarted.
    let load = scene.load();
    blocking(|| rabbit.run());
    scene.resumed().await;
    eventually(PATIENCE, async || scene.executor.stats().relayed == 10).await;
    // Stopped cleanly, as an operator does it.
    blocking(|| rabbit.stop_app());
    scene.cut_off().await;
    scene.works(100).await;
    // Every kind of message is kept, not only jobs.
    for n in 0..10 {
        scene.producer.send(NewJob::event("happened", &n)).await.unwrap();
        scene.producer.send(NewJob::json("paint", &n).queue("paint")).await.unwrap();
    }
    blocking(|| rabbit.start_app());
    scene.resumed().await;
    eventually(PATIENCE, async || scene.executor.stats().relayed == 20).await;
    let client = scene.site.client().await;
    let paint = scene.site.names().external("paint");
    eventually(PATIENCE, async || client.depth(&paint).await.is_some()).await;
    let mut tap = client.tap(&paint, 0).await;
    for n in 0..10 {
        let message = tap.next().await;
        assert_eq!(message.text(), n.to_string());
        let token = message.header("reportToken").unwrap();
        let properties = lapin::BasicProperties::default()
            .with_type("done".into())
            .with_correlation_id(format!("{}:{}:{token}", message.job(), message.version()).into());
        assert!(client.publish("", &scene.site.names().reply(), properties, b"").await);
        tap.ack(&message).await;
    }
    scene.end(load).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_and_restarted_then_wiped_under_load() {
    let mut rabbit = blocking(PrivateRabbit::start);
    let Some(mut scene) = Scene::open(&rabbit).await else { return };
    let load = scene.load();
    scene.resumed().await;
    // Killed, with deliveries in it.
    blocking(|| rabbit.kill());
    scene.cut_off().await;
    scene.works(100).await;
    blocking(|| rabbit.run());
    scene.resumed().await;
    // Wiped: no queue, no message, nothing declared. All that it held is in the table.
    blocking(|| rabbit.wipe());
    scene.resumed().await;
    scene.end(load).await;
}

/// Low on memory: the broker accepts nothing, and reports that when asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocked_by_an_alarm_under_load() {
    let rabbit = blocking(PrivateRabbit::start);
    let Some(mut scene) = Scene::open(&rabbit).await else { return };
    let load = scene.load();
    scene.resumed().await;
    for _ in 0..2 {
        blocking(|| rabbit.alarm());
        let broker = scene.producer.broker().unwrap().clone();
        eventually(PATIENCE, async || matches!(broker.mode(), BrokerMode::Blocked(_))).await;
        scene.works(100).await;
        blocking(|| rabbit.calm());
        scene.resumed().await;
    }
    scene.end(load).await;
}

/// A quorum queue comes back from a crash without a leader: it exists, and answers nobody. See `PrivateRabbit::kill`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_without_leader_is_reported_and_its_jobs_go_by_the_table() {
    let logs = Logs::capture();
    let mut rabbit = blocking(PrivateRabbit::start);
    let Some(mut scene) = Scene::open(&rabbit).await else { return };
    let load = scene.load();
    scene.resumed().await;
    let queue = scene.site.names().deliveries("default");
    blocking(|| rabbit.kill_before_it_saves(&queue));
    scene.cut_off().await;
    blocking(|| rabbit.run());
    for messages in [&scene.producer, &scene.elsewhere] {
        messages.broker().unwrap().up_within(LONG).await.unwrap();
    }
    let address = rabbit.address();
    let warned = async || logs.about(&address, "WARN").iter().any(|line| line.contains(&queue));
    eventually(LONG, warned).await;
    scene.works(100).await;
    // What an operator does about it.
    blocking(|| println!("{}", rabbit.ctl(&["delete_queue", &queue])));
    scene.resumed().await;
    let told = logs.about(&address, "WARN").iter().filter(|line| line.contains(&queue)).count();
    assert_eq!(told, 1, "it is said once");
    scene.end(load).await;
}
