//! The same jobs over RabbitMQ, each figure beside the bare broker or the database alone in the same run.

mod bare;
mod commit;
mod confirmed;
mod end_to_end;
mod external;
mod latency;
mod publish;

use std::time::Duration;

use jobwright::{BrokerConfig, CommandExecutor, MessageServices};

use crate::Result;
use crate::load::QUEUE;
use crate::report::Report;
use crate::setup::{Bench, Schema};

pub(crate) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    for case in crate::args::AMQP_CASES {
        if !bench.args.demand(case) {
            continue;
        }
        eprintln!("{case} …");
        match case {
            "publish" => publish::run(bench, report).await?,
            "commit" => commit::run(bench, report).await?,
            "confirmed" => confirmed::run(bench, report).await?,
            "end-to-end" => end_to_end::run(bench, report).await?,
            "latency" => latency::run(bench, report).await?,
            "external" => external::run(bench, report).await?,
            other => return Err(format!("the case {other:?} has no measurement").into()),
        }
    }
    Ok(())
}

fn url() -> Result<String> {
    Ok(std::env::var("AMQP_URL")
        .map_err(|_| "AMQP_URL is not set: name a broker as amqp://user:password@host:5672/%2f")?)
}

/// A schema and the broker's names for one run.
struct Site<'b> {
    bench: &'b Bench<'b>,
    schema: Schema,
    config: BrokerConfig,
}

impl<'b> Site<'b> {
    async fn open(bench: &'b Bench<'b>, depth: u32) -> Result<Self> {
        let schema = bench.schema().await?;
        let config = BrokerConfig::url(url()?).prefix(schema.name.clone()).depth(depth).required(true);
        Ok(Self { bench, schema, config })
    }

    /// Returns message services with separate connections to the database and, if requested, to the broker.
    async fn services(&self, broker: bool) -> Result<MessageServices> {
        let services = self.schema.services().await?;
        Ok(if broker { services.with_broker(&self.config).await? } else { services })
    }

    /// Stops everything that ran here, and removes what was created at the broker and in the database.
    async fn close(self, executor: Option<CommandExecutor>, services: Vec<MessageServices>) -> Result<()> {
        if let Some(executor) = executor {
            executor.shutdown(Duration::from_secs(5)).await?;
        }
        for each in services {
            if let Some(broker) = each.broker() {
                broker.remove(&[QUEUE.to_owned()], &[QUEUE.to_owned()]).await?;
                broker.close(Duration::from_secs(5)).await;
            }
        }
        self.bench.drop(self.schema).await
    }
}

/// Sends jobs until they go through the broker: a queue is checked before it is used.
async fn opened(services: &MessageServices) -> Result<usize> {
    let payload = crate::load::raw_payload()?;
    for sent in 1..=200 {
        let mut context = services.begin();
        context.send(crate::load::job(&payload))?;
        if context.commit_confirmed().await?.broker > 0 {
            return Ok(sent);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err("no message went through the broker within 10 s".into())
}
