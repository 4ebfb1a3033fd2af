//! What groups, limits and history cost: drains, each beside one of plain jobs in the same run.

mod case;
mod drain;

use crate::Result;
use crate::report::{Line, Report, Unit};
use crate::setup::Bench;

pub(crate) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let plain = case::plain(bench.args);
    let limit = format!("drain of {} plain jobs", plain.jobs);
    for name in crate::args::ENGINE_CASES {
        if !bench.args.wants(name) {
            continue;
        }
        eprintln!("{name} …");
        for case in case::named(name, bench.args)? {
            let (mut ours, mut beside) = (Vec::new(), Vec::new());
            for _ in 0..bench.args.runs {
                beside.push(drain::run(bench, &plain).await?);
                ours.push(drain::run(bench, &case).await?);
            }
            eprintln!("  {}: {ours:.0?} beside {beside:.0?}", case.label);
            let line = Line::new(case.label, Unit::PerSecond, ours).limit(&limit, beside);
            report.add(match case.required {
                Some(required) => line.required(required),
                None => line,
            });
        }
    }
    report.note("A rate is jobs that left the tables, counted there, by the time from before the executor's start.");
    Ok(())
}
