//! Sends.

use jobwright::{Context, Postgres};

use super::Values;
use crate::Result;
use crate::load::{SEND_BATCH, job, raw_payload};
use crate::setup::Bench;

const SINGLE: usize = 200;
const CONTEXTS: usize = 20;

pub(super) async fn run(bench: &Bench<'_>) -> Result<Values> {
    let schema = bench.schema().await?;
    let services = schema.services().await?;
    let payload = raw_payload()?;
    let filled = |n: usize| -> Result<Context<Postgres>> {
        let mut context = services.begin();
        for _ in 0..n {
            context.send(job(&payload))?;
        }
        Ok(context)
    };
    // Makes connections, prepares statements, and begins pages and indexes.
    for n in [1, SEND_BATCH] {
        filled(n)?.commit().await?;
    }

    let before = bench.server.counted().await?;
    for _ in 0..SINGLE {
        filled(1)?.commit().await?;
    }
    let single = bench.server.counted().await?.since(&before);
    let before = bench.server.counted().await?;
    for _ in 0..CONTEXTS {
        filled(SEND_BATCH)?.commit().await?;
    }
    let many = bench.server.counted().await?.since(&before);
    drop(services);
    bench.drop(schema).await?;
    let (single_sends, contexts) = (SINGLE as f64, CONTEXTS as f64);
    Ok(vec![
        ("send and commit: statements", single.statements / single_sends),
        ("send and commit: bytes of WAL", single.wal / single_sends),
        ("send and commit: pages", single.pages / single_sends),
        ("send of 1,000 in a context: statements for the context", many.statements / contexts),
        ("send of 1,000 in a context: bytes of WAL for a job", many.wal / contexts / SEND_BATCH as f64),
        ("send of 1,000 in a context: pages for a job", many.pages / contexts / SEND_BATCH as f64),
    ])
}
