//! A fleet that gets jobs at a given rate.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jobwright::{JobId, MessageServices, NewJob};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::idle::{CALM, SETTLED_WITHIN};
use super::ledger::Sent;
use super::nodes::Nodes;
use super::site::{Site, Tables};
use crate::Result;
use crate::load::{KIND, raw_payload};

/// Sends under way at the same time. A server that can't keep up lowers the rate.
const SENDS: usize = 256;
/// How long the jobs may take to end after the last was sent.
const PATIENCE: Duration = Duration::from_secs(120);

/// The cost of jobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) jobs: usize,
    /// Jobs a second, from the first send until the last job was removed.
    pub(super) rate: f64,
    /// Highest number of connections, the sender's included.
    pub(super) connections: usize,
    /// Number of connections some seconds later, without the sender's.
    pub(super) afterwards: usize,
    /// Transactions a job, that of its send included.
    pub(super) transactions: f64,
    /// Milliseconds of the server's processor time a job.
    pub(super) cpu: Option<f64>,
}

/// Measures. Adds the jobs to those that these nodes got, and what is wrong to the problems.
pub(super) async fn run(
    site: &Site,
    tables: &Tables,
    nodes: &Nodes,
    (rate, window): (usize, Duration),
    (sent, problems): (&mut Sent<JobId>, &mut Vec<String>),
) -> Result<Load> {
    let observer = site.observer().await?;
    let services = MessageServices::postgres(&tables.config).await?;
    // Opens the sender's connections and prepares its statement.
    sent.sure.push(services.send(job()?).await?);
    let client = site.client().await?;
    tables.until_left(&client, 0, PATIENCE).await?;
    let watch = site.observer().await?.watch();
    let before = observer.read().await?;
    let began = Instant::now();
    let ids = send(&services, rate, window).await?;
    let jobs = ids.len();
    sent.sure.extend(ids);
    let left = tables.until_left(&client, 0, PATIENCE).await?;
    let seconds = began.elapsed().as_secs_f64();
    let usage = before.until(observer.read().await?);
    problems.extend(nodes.ledger.problems("load", sent, left));
    let connections = watch.most();
    drop((services, client));
    Ok(Load {
        jobs,
        rate: jobs as f64 / seconds,
        connections,
        afterwards: observer.settled(CALM, SETTLED_WITHIN).await?,
        transactions: usage.transactions / jobs as f64,
        cpu: usage.cpu.map(|cpu| cpu * 1_000.0 / jobs as f64),
    })
}

pub(super) fn job() -> Result<NewJob> {
    Ok(NewJob::json(KIND, &*raw_payload()?))
}

/// Sends jobs one by one, evenly over this time, as many programs together would. Each send is a transaction, but the library writes those together that
/// happen at the same time.
async fn send(services: &MessageServices, rate: usize, window: Duration) -> Result<Vec<JobId>> {
    let total = (rate as f64 * window.as_secs_f64()).round() as usize;
    let slots = Arc::new(Semaphore::new(SENDS));
    let mut sends = JoinSet::new();
    let mut ids = Vec::with_capacity(total);
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let began = Instant::now();
    let mut begun = 0;
    while begun < total && began.elapsed() < window {
        ticks.tick().await;
        let due = ((began.elapsed().as_secs_f64() * rate as f64) as usize).min(total);
        while begun < due {
            let slot = slots.clone().acquire_owned().await?;
            let (services, job) = (services.clone(), job()?);
            sends.spawn(async move {
                let sent = services.send(job).await;
                drop(slot);
                sent
            });
            begun += 1;
        }
        while let Some(sent) = sends.try_join_next() {
            ids.push(sent??);
        }
    }
    while let Some(sent) = tokio::time::timeout(PATIENCE, sends.join_next())
        .await
        .map_err(|_| format!("sends have not ended within {} s", PATIENCE.as_secs()))?
    {
        ids.push(sent??);
    }
    Ok(ids)
}
