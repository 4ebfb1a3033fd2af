//! Part 2: many orders, whose jobs may fail once, twice or for good.

use std::time::{Duration, Instant};

use jobwright::internal::Backend;

use super::orders::{Order, handler};
use super::progress::bar;
use super::stage::{Stage, until};
use crate::failure::Failure;
use crate::output::line;

pub(super) const QUEUE: &str = "flood";
/// Orders of customers without an address.
const HOPELESS: u64 = 20;
/// Orders in one transaction. With a broker, the jobs of the first few are claimed from the table, until it is known that its queue has a consumer.
const BATCH: u64 = 100;
/// The first part has used smaller numbers.
const FIRST: u64 = 1001;

fn order(index: u64, orders: u64) -> Order {
    let (address, jams) = match index {
        n if n % (orders / HOPELESS) == 0 && n / (orders / HOPELESS) < HOPELESS => ("", 0),
        n if n % 25 == 1 => ("2 Main Street", 2),
        n if n % 10 == 2 => ("2 Main Street", 1),
        _ => ("2 Main Street", 0),
    };
    Order { number: FIRST + index, address, jams }
}

/// Places the orders.
async fn place(stage: &Stage, orders: u64) -> Result<(), Failure> {
    let mut index = 0;
    while index < orders {
        let mut context = stage.messages.begin();
        for _ in 0..BATCH.min(orders - index) {
            order(index, orders).place(stage, &mut context, QUEUE).await?;
            index += 1;
        }
        context.commit().await?;
    }
    Ok(())
}

/// Says what the rate depends on.
fn paid_for(stage: &Stage) -> Result<&'static str, Failure> {
    Ok(match stage.config.database.backend()? {
        Backend::Sqlite(_) => {
            "each invoice is a separate, synced commit on the embedded database, which has one writer"
        }
        _ => "each invoice is a separate commit",
    })
}

/// Runs this part. Returns how many jobs were sent.
pub(super) async fn run(stage: &Stage, orders: u64) -> Result<u64, Failure> {
    line(format!(
        "2. {orders} more orders. For some, the printer is jammed once or twice; {HOPELESS} are of customers without an address.\n"
    ))?;
    let start = async || handler(stage, stage.executor().queue(QUEUE, 16)).start().await;
    // With a broker, jobs are delivered to connected executors; without one, they wait for any executor.
    let with_broker = stage.messages.broker().is_some();
    let began = Instant::now();
    let (executor, sent, began) = if with_broker {
        let executor = start().await?;
        stage.consumed(QUEUE, 1).await?;
        let began = Instant::now();
        place(stage, orders).await?;
        line(format!("    sent: {orders} jobs, after {:.1} s; they are run meanwhile", began.elapsed().as_secs_f64()))?;
        (executor, orders, began)
    } else {
        place(stage, orders).await?;
        let waiting = stage.queue(QUEUE).await?.waiting;
        line(format!("    sent: {waiting} jobs, which wait, after {:.1} s", began.elapsed().as_secs_f64()))?;
        let began = Instant::now();
        (start().await?, orders, began)
    };
    let bar = bar(sent, "jobs over");
    until("running all jobs", async || {
        let stats = executor.stats();
        // Only for the progress bar; whether they have ended is checked below.
        bar.set_position(stats.done);
        if stats.in_flight > 0 {
            return Ok(false);
        }
        let queue = stage.queue(QUEUE).await?;
        Ok(queue.waiting + queue.running + queue.timer == 0)
    })
    .await?;
    bar.finish_and_clear();
    let stats = executor.shutdown(Duration::from_secs(5)).await?;
    let seconds = began.elapsed().as_secs_f64();
    stage.over_the_broker(QUEUE, &stats).await?;
    let dead = stage.queue(QUEUE).await?.dead;
    line(format!(
        "    run: {} done in {seconds:.1} s ({:.0} a second: {})\n    {} attempts failed and left nothing; {dead} jobs had no attempt left and \
         are dead letters now\n",
        stats.done,
        stats.done as f64 / seconds,
        paid_for(stage)?,
        stats.failed,
    ))?;
    Ok(sent)
}
