//! Claims and removals at the head of few and of many jobs.

use std::time::{Duration, Instant};

use jobwright::store::engine::{ClaimRequest, NodeInfo, ScanCursor, ScanRange};
use jobwright::{ClaimNumber, Fence};

use crate::Result;
use crate::load::{BATCH, Inserter, KIND, QUEUE, payload};
use crate::report::{Line, Report, Required, Unit};
use crate::setup::Bench;

/// The backlog that others are compared with.
const FEW: usize = 1_000;
const BATCHES: usize = 100;

pub(super) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    for many in [bench.args.count(1_000_000, 50_000), bench.args.count(10_000_000, 100_000)] {
        // Filling takes longer than the measurement, so both tables stay, and are measured in turn.
        let few = Front::open(bench, FEW).await?;
        let full = Front::open(bench, many).await?;
        let (mut ours, mut limit) = (Vec::new(), Vec::new());
        for _ in 0..bench.args.runs {
            limit.push(few.run().await?);
            ours.push(full.run().await?);
        }
        eprintln!("  {many}: {ours:.0?} beside {limit:.0?}");
        for front in [few, full] {
            front.close(bench).await?;
        }
        report.add(
            Line::new(format!("claim and removal of {BATCH}, {many} waiting"), Unit::PerSecond, ours)
                .limit(format!("the same, {FEW} waiting"), limit)
                .required(Required::Ratio(0.9)),
        );
    }
    Ok(())
}

struct Front {
    schema: crate::setup::Schema,
    services: jobwright::MessageServices,
    loader: tokio_postgres::Client,
    refill: (Inserter, tokio_postgres::Statement),
}

impl Front {
    async fn open(bench: &Bench<'_>, backlog: usize) -> Result<Self> {
        let schema = bench.schema().await?;
        let client = bench.server.client();
        // Ascending ids, like those of UUIDv7: the removal of neighbours finds them side by side in the index.
        let sql = format!(
            "insert into {0} (id, kind, queue, rank, max_attempts, payload) \
             select (lpad(to_hex(1760000000000 + n), 12, '0') || '70008' || lpad(to_hex(n), 15, '0'))::uuid, \
                    '{KIND}', '{QUEUE}', 0, 10, '{1}'::jsonb from generate_series(1, {backlog}) n",
            schema.table(),
            payload()
        );
        client.batch_execute(&sql).await?;
        client.batch_execute(&format!("vacuum (analyze) {}", schema.table())).await?;
        bench.server.checkpoint().await;
        let (services, loader) = (schema.services().await?, bench.connect().await?);
        let inserter = Inserter::new(&schema, BATCH);
        let statement = inserter.prepare(&loader).await?;
        Ok(Self { schema, services, loader, refill: (inserter, statement) })
    }

    /// Returns jobs a second of the time that claims and removals take. Removed jobs are sent again in between, so that the backlog stays.
    async fn run(&self) -> Result<f64> {
        let jobs = self.services.engine();
        let info = NodeInfo::new("front", "here", 0, Duration::from_secs(300));
        let node = jobs.register_node(&info).await?;
        let kinds = [KIND.to_owned()];
        let (mut spent, mut cursor): (Duration, Option<ScanCursor>) = (Duration::ZERO, None);
        for n in 0..=BATCHES {
            let start = Instant::now();
            let request = ClaimRequest::new(node, ClaimNumber::new(1), QUEUE, BATCH)
                .kinds(&kinds)
                .range(ScanRange::after(cursor.as_slice()));
            let claimed = jobs.claim(&request).await?.jobs;
            let fences: Vec<Fence> = claimed.iter().map(jobwright::Job::fence).collect();
            let removed = jobs.complete(node, &fences).await?.len();
            // The first prepares its statements.
            if n > 0 {
                spent += start.elapsed();
            }
            if removed != BATCH {
                return Err(format!("{removed} of {BATCH} jobs were claimed and removed").into());
            }
            // As in the executor: with a backlog the next scan starts where the last one ended.
            cursor = claimed.last().map(|last| ScanCursor { rank: -last.priority, seq: last.seq });
            self.refill.0.insert(&self.loader, &self.refill.1).await?;
        }
        jobs.retire_node(node).await?;
        Ok((BATCHES * BATCH) as f64 / spent.as_secs_f64())
    }

    async fn close(self, bench: &Bench<'_>) -> Result<()> {
        drop(self.services);
        bench.drop(self.schema).await
    }
}
