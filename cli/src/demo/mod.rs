//! `jobwright demo`: the guided tour. Nothing in it is simulated: the failures, the kill and the figures are real.

mod account;
mod cure;
mod flood;
mod orders;
mod progress;
mod stage;
mod takeover;

use std::time::Instant;

use self::stage::Stage;
use crate::args::DemoArgs;
use crate::commands::signals::Signals;
use crate::failure::Failure;
use crate::output::{line, say};

pub(crate) async fn run(args: DemoArgs, database_url: Option<String>, amqp_url: Option<String>) -> Result<(), Failure> {
    if args.child_worker {
        return takeover::child().await;
    }
    let mut signals = Signals::new()?;
    let began = Instant::now();
    let stage = Stage::open(database_url, amqp_url).await?;
    // Whatever happens, nothing is left behind.
    let ended = tokio::select! {
        // First: Ctrl-C also ends the commands that the tour runs, which then fail.
        biased;
        name = signals.next() => Err(Failure::Failed(format!("stopped by {name}; nothing is left behind"))),
        ended = tour(&stage, args.jobs) => ended,
    };
    let with_broker = stage.messages.broker().is_some();
    let place = stage.messages.admin().describe();
    let closed = stage.close([orders::QUEUE, flood::QUEUE, takeover::QUEUE]).await;
    if closed.is_err() {
        say(format!("the demo could not clean up {place}"));
    }
    ended.and(closed)?;
    let what = if with_broker { "its database and its queues" } else { "its database" };
    line(format!("The demo took {:.0} s and has removed {what}.", began.elapsed().as_secs_f64()))
}

async fn tour(stage: &Stage, jobs: u64) -> Result<(), Failure> {
    line(format!("A separate database: {}", stage.messages.admin().describe()))?;
    if let Some(broker) = stage.messages.broker() {
        line(format!("A broker: {}, queues {}.*", broker.describe(), stage.config.broker.prefix))?;
    }
    line("")?;
    let first = orders::run(stage).await?;
    let sent = flood::run(stage, jobs).await?;
    let taken = takeover::run(stage).await?;
    account::run(stage, (first, sent), &taken).await?;
    cure::run(stage, first + sent).await
}
