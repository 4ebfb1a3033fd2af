//! Jobs over RabbitMQ: a producer, a consumer and a listener in one program. The rows are in the database as always. The broker carries
//! deliveries of them and an event, and nothing is lost if the broker loses them.
//!
//! ```sh
//! AMQP_URL=amqp://guest:guest@localhost/%2F cargo run --example rabbitmq       # DATABASE_URL=postgres://… for PostgreSQL
//! ```

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jobwright::{BrokerConfig, CommandExecutor, Config, Job, MessageServices, NewJob, Outcome};
use support::Result;

const QUEUE: &str = "sums";
const JOBS: u64 = 1000;

#[tokio::main]
async fn main() -> Result {
    support::with_scratch_database("rabbitmq", tour).await
}

async fn tour(mut config: Config) -> Result {
    let Some(url) = std::env::var("AMQP_URL").ok().filter(|url| !url.is_empty()) else {
        println!("AMQP_URL is not set: nothing to show");
        return Ok(());
    };
    // A separate prefix, so that nothing else at the broker is touched. `required`: this example makes no sense without a broker.
    let prefix = format!("jobwright_example_{}", std::process::id());
    config.broker = BrokerConfig::url(url).prefix(prefix).required(true).intake(false);

    // Two connections, as two programs would have: jobs sent in an executor's own process go straight to its free slots.
    let producer = MessageServices::connect(&config).await?;
    producer.migrate().await?;
    let consumer = MessageServices::connect(&config).await?;
    // A separate task, so that a failed assertion does not skip the cleanup.
    let ended = tokio::spawn(exchange(producer.clone(), consumer.clone())).await;

    // The consumer first, so that no subscription declares its queue again.
    if let (Some(theirs), Some(ours)) = (consumer.broker(), producer.broker()) {
        theirs.close(Duration::from_secs(5)).await;
        ours.remove(&[QUEUE.to_owned()], &[]).await?;
        ours.close(Duration::from_secs(5)).await;
    }
    ended?
}

async fn exchange(
    producer: MessageServices<jobwright::AnyStore>,
    consumer: MessageServices<jobwright::AnyStore>,
) -> Result {
    let Some(broker) = producer.broker() else { return Err("no broker is configured".into()) };
    println!("broker: {}, {:?}", broker.describe(), broker.mode());

    let sum = Arc::new(AtomicU64::new(0));
    let handler = sum.clone();
    let executor = CommandExecutor::builder(consumer)
        .handle("add", move |job: Job| {
            let sum = handler.clone();
            async move {
                sum.fetch_add(job.payload.decode()?, Ordering::Relaxed);
                Ok(Outcome::Done)
            }
        })
        .queue(QUEUE, 20)
        .start()
        .await?;
    let name = [broker.names().deliveries(QUEUE)];
    let end = Instant::now() + Duration::from_secs(30);
    while broker.queues(&name).await?.iter().all(|queue| queue.consumers.unwrap_or_default() == 0) {
        if Instant::now() > end {
            return Err("nobody consumes the queue after 30 s".into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    // One unit of work: rows first, deliveries after the commit.
    producer.prepare(QUEUE).await;
    let mut cx = producer.begin();
    for number in 1..=JOBS {
        cx.send(NewJob::json("add", &number).queue(QUEUE))?;
    }
    // An event: published when its row has committed, for all bound queues, and removed once the broker has it.
    cx.send(NewJob::event("numbers-sent", &JOBS))?;
    cx.commit().await?;
    producer.wake_ups_sent().await;
    let sent = broker.stats();
    println!(
        "sent: {} deliveries confirmed, {} refused (the queue was full), the rest left to the table",
        sent.confirmed, sent.nacked
    );

    support::until_idle(&producer).await?;
    let stats = executor.shutdown(Duration::from_secs(5)).await?;
    println!(
        "run: {} done, {} of them delivered by the broker; {} deliveries were stale; {} events relayed",
        stats.done, stats.delivered, stats.stale, stats.relayed
    );
    assert_eq!(sum.load(Ordering::Relaxed), JOBS * (JOBS + 1) / 2, "each job ran once");
    // An event is a row too, and is done when it has been relayed.
    assert_eq!((stats.done, stats.relayed), (JOBS + 1, 1));
    assert!(stats.delivered > 0, "something came through the broker");
    Ok(())
}
