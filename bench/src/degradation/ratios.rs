//! Groups and limits while a snapshot is held: whether their rate keeps its ratio to that of plain jobs.

use std::time::Instant;

use jobwright::store::{Rule, Scope};
use jobwright::{NewJob, Unique};
use serde_json::json;

use super::PINNED;
use super::place::{LIMITED, Place};
use crate::Result;
use crate::load::{KIND, Make, grouped, plain};
use crate::report::{Line, Report, Required, Unit};
use crate::setup::Bench;

/// The jobs drained in each round: plain jobs first.
const WORK: [(&str, &str, usize, Make); 4] = [
    ("plain jobs", KIND, 20_000, plain),
    ("jobs of 1,000 groups", KIND, 10_000, grouped),
    ("jobs of a kind, 50 at a time", LIMITED, 5_000, plain),
    ("jobs with unique keys", KIND, 10_000, unique),
];

fn unique(n: usize, job: NewJob) -> NewJob {
    job.unique(Unique::key(format!("order-{n}")))
}

pub(super) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let time = bench.args.held(PINNED);
    let place = Place::open(bench).await?;
    place.schema.services().await?.admin().put_rule(&Rule::new(Scope::Kind, LIMITED).running(50)).await?;
    let mut free = Vec::new();
    for _ in 0..bench.args.runs {
        free.push(round(bench, &place).await?);
    }
    let holder = bench.connect().await?;
    holder.batch_execute("begin isolation level repeatable read; select txid_current()").await?;
    let start = Instant::now();
    let mut pinned = Vec::new();
    while start.elapsed() < time || pinned.len() < bench.args.runs {
        let round = round(bench, &place).await?;
        report.raw(json!({ "case": "admission-pinned", "seconds": start.elapsed().as_secs(), "rates": round }));
        pinned.push(round);
    }
    holder.batch_execute("rollback").await?;
    place.close(bench).await?;
    // The last ones, when most rows are dead.
    let last = pinned.split_off(pinned.len() - free.len());
    for (n, (what, ..)) in WORK.iter().enumerate().skip(1) {
        let of_plain =
            |rounds: &[[f64; WORK.len()]]| rounds.iter().map(|rates| rates[n] / rates[0]).collect::<Vec<f64>>();
        let name = format!("{what}, of plain ones, after {} s with a snapshot held", time.as_secs());
        let line = Line::new(name, Unit::Share, of_plain(&last)).limit("the same before it", of_plain(&free));
        report.add(line.required(Required::Ratio(0.9)));
    }
    for (n, (what, ..)) in WORK.iter().enumerate() {
        let rates = |rounds: &[[f64; WORK.len()]]| rounds.iter().map(|rates| rates[n]).collect::<Vec<f64>>();
        let line = Line::new(format!("… drain of {what}"), Unit::PerSecond, rates(&last));
        report.add(line.limit("the same before it", rates(&free)));
    }
    Ok(())
}

/// Returns the rate of each.
async fn round(bench: &Bench<'_>, place: &Place) -> Result<[f64; WORK.len()]> {
    let mut rates = [0.0; WORK.len()];
    for ((_, kind, jobs, make), rate) in WORK.into_iter().zip(&mut rates) {
        let jobs = bench.args.count(jobs, jobs / 20);
        place.send_kind(kind, jobs, make).await?;
        *rate = place.drain(bench, jobs).await?.rate;
    }
    eprintln!("  {rates:.0?}");
    Ok(rates)
}
