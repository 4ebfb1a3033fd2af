//! A fleet whose jobs may not start: behind a limit that is full, and behind a paused queue.

use std::time::Duration;

use jobwright::admin::JobFilter;
use jobwright::admin::{Rule, Scope};
use jobwright::{JobId, MessageServices};

use super::idle::{self, Idle};
use super::ledger::Sent;
use super::load::job;
use super::nodes::Nodes;
use super::site::{Site, Tables};
use crate::Result;

/// Jobs that wait.
const JOBS: usize = 20;
/// Longer than any window.
const LONG: Duration = Duration::from_secs(3_600);
/// How long a job may take to start, or to end when it is cancelled.
const PATIENCE: Duration = Duration::from_secs(60);

/// What nodes cost meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// One job runs, and no more may.
    pub(super) full: Idle,
    /// The queue is paused.
    pub(super) paused: Idle,
}

/// Measures each for this long. Adds the job that has started to those that these nodes got.
pub(super) async fn run(
    site: &Site,
    tables: &Tables,
    nodes: &Nodes,
    window: Duration,
    sent: &mut Sent<JobId>,
) -> Result<Held> {
    let services = MessageServices::postgres(&tables.config).await?;
    let admin = services.admin();
    let rule = || Rule::new(Scope::Queue, jobwright::DEFAULT_QUEUE);
    let client = site.client().await?;
    admin.put_rule(&rule().running(1)).await?;
    nodes.work(LONG);
    let ids = send(&services).await?;
    running(nodes, 1).await?;
    let full = idle::run(site, window).await?;
    sent.sure.extend(ids.into_iter().filter(|id| nodes.ledger.has_started(id)));
    admin.put_rule(&rule().running(1).paused(true)).await?;
    admin.cancel(&JobFilter::default()).await?;
    running(nodes, 0).await?;
    tables.until_left(&client, 0, PATIENCE).await?;
    send(&services).await?;
    let paused = idle::run(site, window).await?;
    admin.cancel(&JobFilter::default()).await?;
    admin.put_rule(&rule()).await?;
    nodes.work(Duration::ZERO);
    tables.until_left(&client, 0, PATIENCE).await?;
    Ok(Held { full, paused })
}

async fn send(services: &MessageServices<jobwright::Postgres>) -> Result<Vec<JobId>> {
    let mut context = services.begin();
    let ids = (0..JOBS).map(|_| Ok(context.send(job()?)?)).collect::<Result<_>>()?;
    context.commit().await?;
    Ok(ids)
}

async fn running(nodes: &Nodes, count: usize) -> Result<()> {
    tokio::time::timeout(PATIENCE, async {
        while nodes.running() != count {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .map_err(|_| format!("{} jobs run, not {count}", nodes.running()).into())
}
