//! A fleet from its start, and while it has nothing to do.

use std::time::{Duration, Instant};

use super::nodes::Nodes;
use super::site::{Site, Tables};
use crate::Result;

/// How long the number of connections has to stay the same to count as settled, and how long that is waited for.
pub(super) const CALM: Duration = Duration::from_secs(5);
pub(super) const SETTLED_WITHIN: Duration = Duration::from_secs(60);

/// How long nodes work once after their start (repairs, first looks of each task), and the server holds back what connections report of that.
const BEGUN: Duration = Duration::from_secs(20);

/// The start of all nodes at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// Seconds until all were ready.
    pub(super) seconds: f64,
    /// Highest number of connections until then.
    pub(super) most: usize,
    /// Number of connections when it did not change any more.
    pub(super) settled: usize,
}

/// What idle nodes cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    /// Transactions a second of all nodes.
    pub(super) transactions: f64,
    /// Connections of all nodes, at the end.
    pub(super) connections: usize,
    /// Milliseconds of the server's processor time a second, for all nodes.
    pub(super) cpu: Option<f64>,
}

/// Starts this many nodes and measures that.
pub(super) async fn start(site: &Site, tables: &Tables, nodes: usize, lease: Duration) -> Result<(Nodes, Start)> {
    let observer = site.observer().await?;
    let watch = site.observer().await?.watch();
    let began = Instant::now();
    let started = Nodes::start(tables, nodes, lease).await?;
    let seconds = began.elapsed().as_secs_f64();
    let settled = observer.settled(CALM, SETTLED_WITHIN).await?;
    Ok((started, Start { seconds, most: watch.most(), settled }))
}

/// Watches idle nodes for this long.
pub(super) async fn run(site: &Site, window: Duration) -> Result<Idle> {
    let observer = site.observer().await?;
    tokio::time::sleep(BEGUN).await;
    let before = observer.read().await?;
    tokio::time::sleep(window).await;
    let usage = before.until(observer.read().await?);
    Ok(Idle {
        transactions: usage.transactions / usage.seconds,
        connections: observer.connections().await?,
        cpu: usage.cpu.map(|cpu| cpu * 1_000.0 / usage.seconds),
    })
}
