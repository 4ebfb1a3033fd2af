//! What groups, limits, uniqueness and history cost: sends and drains, each beside those of plain jobs in the same run.

mod case;
mod drain;

use drain::Rates;

use crate::Result;
use crate::report::{Line, Report, Unit};
use crate::setup::Bench;

pub(crate) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let plain = case::plain(bench.args);
    let drained = format!("drain of {} plain jobs", plain.jobs);
    let sent = format!("send of {} plain jobs", plain.jobs);
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
            let send = |rates: &[Rates]| rates.iter().map(|rates| rates.send).collect::<Vec<f64>>();
            let drain = |rates: &[Rates]| rates.iter().map(|rates| rates.drain).collect::<Vec<f64>>();
            eprintln!("  {}: {:.0?} beside {:.0?}", case.label, drain(&ours), drain(&beside));
            let line = Line::new(case.label, Unit::PerSecond, drain(&ours)).limit(&drained, drain(&beside));
            report.add(match case.required {
                Some(required) => line.required(required),
                None => line,
            });
            report
                .add(Line::new("… sent, 1,000 in a context", Unit::PerSecond, send(&ours)).limit(&sent, send(&beside)));
        }
    }
    report.note("A rate is jobs that left the tables, counted there, by the time from before the executor's start.");
    Ok(())
}
