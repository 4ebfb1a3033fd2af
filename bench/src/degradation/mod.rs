//! The share of the rate that is left when the work grows, or something blocks it: drains, each beside one without the difficulty in the same run.

mod admission;
mod drain;
mod network;
mod pinned;
mod place;
mod processes;
mod queue_head;
mod queues;
mod ratios;

use crate::Result;
use crate::report::{Line, Report, Required, Unit};
use crate::setup::Bench;
use drain::{Drain, Payload};

pub(crate) use processes::worker;

pub(crate) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    for case in crate::args::DEGRADATION_CASES {
        if !bench.args.demand(case) {
            continue;
        }
        eprintln!("{case} …");
        match case {
            "backlog" => queue_head::run(bench, report).await?,
            "owned" => {
                let owned = bench.args.count(100_000, 5_000);
                let harder = Drain { owned, ..plain(bench) };
                let label = format!("drain of {} jobs behind {owned} that somebody owns", harder.jobs);
                beside(bench, report, label, &harder, Some(Required::Ratio(0.95))).await?;
            }
            "queues" => {
                let harder = Drain { queues: 64, ..plain(bench) };
                beside(bench, report, format!("drain of {} jobs in 64 queues", harder.jobs), &harder, None).await?;
            }
            "payload" => {
                for (payload, jobs) in [(Payload::Long(10_000), 20_000), (Payload::Long(1_000_000), 200)] {
                    let harder = Drain { payload, jobs: bench.args.count(jobs, jobs / 10), ..plain(bench) };
                    let label = format!("drain of {} jobs of {}", harder.jobs, payload.name());
                    beside(bench, report, label, &harder, None).await?;
                }
            }
            "network" => network::run(bench, report).await?,
            "processes" => processes::run(bench, report).await?,
            "pinned" => pinned::run(bench, report).await?,
            "admission-blocked" => admission::blocked(bench, report).await?,
            "admission-hot" => admission::hot(bench, report).await?,
            "admission-keys" => admission::keys(bench, report).await?,
            "admission-processes" => processes::groups(bench, report).await?,
            "admission-queues" => queues::run(bench, report).await?,
            "admission-pinned" => ratios::run(bench, report).await?,
            other => return Err(format!("the case {other:?} has no measurement").into()),
        }
    }
    Ok(())
}

fn plain(bench: &Bench<'_>) -> Drain {
    Drain { jobs: bench.args.count(100_000, 10_000), owned: 0, queues: 1, payload: Payload::Short }
}

async fn beside(
    bench: &Bench<'_>,
    report: &mut Report,
    label: String,
    harder: &Drain,
    required: Option<Required>,
) -> Result<()> {
    let plain = plain(bench);
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    for _ in 0..bench.args.runs {
        limit.push(plain.run(bench).await?);
        ours.push(harder.run(bench).await?);
    }
    eprintln!("  {label}: {ours:.0?} beside {limit:.0?}");
    let line = Line::new(label, Unit::PerSecond, ours).limit(format!("drain of {} plain jobs", plain.jobs), limit);
    report.add(match required {
        Some(required) => line.required(required),
        None => line,
    });
    Ok(())
}

/// Seconds for which a snapshot is held.
const PINNED: u64 = 600;
