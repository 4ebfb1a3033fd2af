//! The same jobs over RabbitMQ, each figure beside the bare broker or the database alone in the same run.

mod bare;
mod celery;
mod commit;
mod end_to_end;
mod external;
mod latency;
mod publish;

use std::sync::Arc;
use std::time::Duration;

use jobwright::{Broker, BrokerConfig, MessageServices};

use crate::Result;
use crate::report::Report;
use crate::setup::{Bench, Schema};

pub(crate) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    for case in crate::args::AMQP_CASES {
        if !bench.args.wants(case) {
            continue;
        }
        eprintln!("{case} …");
        match case {
            "publish" => publish::run(bench, report).await?,
            "commit" => commit::run(bench, report).await?,
            "end-to-end" => end_to_end::run(bench, report).await?,
            "latency" => latency::run(bench, report).await?,
            "external" => external::run(bench, report).await?,
            "celery" => celery::run(bench, report).await?,
            other => return Err(format!("the case {other:?} has no measurement").into()),
        }
    }
    Ok(())
}

fn url() -> Result<String> {
    Ok(std::env::var("AMQP_URL")
        .map_err(|_| "AMQP_URL is not set: name a broker as amqp://user:password@host:5672/%2f")?)
}

/// A broker's names for one run.
struct Site {
    config: BrokerConfig,
}

impl Site {
    fn new(schema: &Schema, depth: u32) -> Result<Self> {
        Ok(Self {
            config: BrokerConfig { prefix: schema.name.clone(), depth, required: true, ..BrokerConfig::url(url()?) },
        })
    }

    /// Message services with connections of their own, to the database and to the broker.
    async fn services(&self, schema: &Schema) -> Result<MessageServices> {
        Ok(schema.services().await?.with_broker(&self.config).await?)
    }

    /// Removes what was declared.
    async fn close(self) -> Result<()> {
        bare::remove(&url()?, &self.config.prefix).await
    }
}

/// Sends jobs until they go through the broker: a queue is looked at before it is used.
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

async fn close(broker: Option<&Arc<Broker>>) {
    if let Some(broker) = broker {
        broker.close(Duration::from_secs(5)).await;
    }
}
