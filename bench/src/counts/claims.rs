//! Claims and removals at the head of a million jobs.

use std::time::Duration;

use jobwright::internal::engine::{ClaimRequest, NodeInfo};
use jobwright::internal::{ClaimNumber, Fence};

use super::Values;
use crate::Result;
use crate::load::{BATCH, KIND, QUEUE, payload};
use crate::server::Counted;
use crate::setup::{Bench, Schema};

const BACKLOG: usize = 1_000_000;
const BATCHES: usize = 40;

pub(super) async fn run(bench: &Bench<'_>) -> Result<Values> {
    let schema = bench.schema().await?;
    filled(bench, &schema).await?;
    let services = schema.services().await?;
    let jobs = services.engine();
    let info = NodeInfo::new("counts", "here", 0, Duration::from_secs(300));
    let node = jobs.register_node(&info).await?;
    let kinds = [KIND.to_owned()];
    let request = ClaimRequest::new(node, ClaimNumber::new(1), QUEUE, BATCH).kinds(&kinds);

    let (mut claims, mut removals) = (Counted::default(), Counted::default());
    // The first pair prepares its statements, and is not counted.
    for n in 0..=BATCHES {
        let before = bench.server.counted().await?;
        let claimed = jobs.claim(&request).await?.jobs;
        let between = bench.server.counted().await?;
        let fences: Vec<Fence> = claimed.iter().map(jobwright::Job::fence).collect();
        let removed = jobs.complete(node, &fences).await?;
        let after = bench.server.counted().await?;
        if removed.len() != BATCH {
            return Err(format!("{} of {BATCH} jobs were claimed and removed", removed.len()).into());
        }
        if n > 0 {
            claims = claims.and(&between.since(&before));
            removals = removals.and(&after.since(&between));
        }
    }
    drop(services);
    // After this the counters of the table are complete.
    bench.server.settle().await?;
    let hot = bench.server.hot_ratio(&schema.name).await?.unwrap_or_default();
    bench.drop(schema).await?;
    let (batches, each) = (BATCHES as f64, (BATCHES * BATCH) as f64);
    Ok(vec![
        ("claim of 500 of 1,000,000: statements", claims.statements / batches),
        ("claim of 500 of 1,000,000: pages for a job", claims.pages / each),
        ("claim of 500 of 1,000,000: bytes of WAL for a job", claims.wal / each),
        ("claim of 500 of 1,000,000: updates that leave their page (not HOT)", 1.0 - hot),
        ("removal of 500: statements", removals.statements / batches),
        ("removal of 500: pages for a job", removals.pages / each),
        ("removal of 500: bytes of WAL for a job", removals.wal / each),
    ])
}

async fn filled(bench: &Bench<'_>, schema: &Schema) -> Result<()> {
    let sql = format!(
        "insert into {0} (id, kind, queue, rank, max_attempts, payload) \
         select gen_random_uuid(), '{KIND}', '{QUEUE}', 0, 10, '{1}'::jsonb from generate_series(1, {BACKLOG})",
        schema.table(),
        payload()
    );
    let client = bench.server.client();
    client.batch_execute(&sql).await?;
    client.batch_execute(&format!("vacuum (analyze) {}", schema.table())).await?;
    Ok(())
}
