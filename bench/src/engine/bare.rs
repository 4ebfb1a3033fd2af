//! The bare loop beside a case, in a separate schema.

use std::time::Instant;

use super::drain::{Rates, settled};
use crate::Result;
use crate::cases::{emptied, per_second};
use crate::limits::admission::{Limit, clients};
use crate::load::left;
use crate::setup::Bench;

/// Returns the rate with the best number of connections.
pub(super) async fn run(bench: &Bench<'_>, limit: Limit, jobs: usize) -> Result<Rates> {
    let mut best = Rates { send: 0.0, drain: 0.0 };
    for &connections in limit.connections() {
        let rates = once(bench, limit, jobs, connections).await?;
        best = Rates { send: best.send.max(rates.send), drain: best.drain.max(rates.drain) };
    }
    Ok(best)
}

async fn once(bench: &Bench<'_>, limit: Limit, jobs: usize, connections: usize) -> Result<Rates> {
    let schema = bench.schema().await?;
    let loader = bench.connect_bare().await?;
    limit.prepare(&loader, &schema).await?;
    bench.server.checkpoint().await;
    let start = Instant::now();
    limit.fill(&loader, &schema, jobs).await?;
    let send = per_second(jobs, start.elapsed());
    drop(loader);
    settled(bench, &schema).await?;
    let clients = clients(bench, connections).await?;
    let found = left(bench.server.client(), &schema).await?;
    if found != jobs as i64 {
        return Err(format!("the table has {found} jobs instead of {jobs}").into());
    }
    let start = Instant::now();
    limit.empty(&clients, &schema).await?;
    emptied(left(bench.server.client(), &schema).await?)?;
    let drain = per_second(jobs, start.elapsed());
    drop(clients);
    bench.drop(schema).await?;
    Ok(Rates { send, drain })
}
