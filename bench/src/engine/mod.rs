//! The cost of groups, limits, uniqueness and history: sends and drains, each beside those of plain jobs in the same run, and beside a bare loop that
//! does the same work.

mod bare;
mod case;
mod drain;
mod windows;

use case::Case;
use drain::Rates;

use crate::Result;
use crate::limits::admission::Limit;
use crate::report::{Line, Report, Required, Unit};
use crate::setup::Bench;

pub(crate) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let plain = case::plain(bench.args);
    for name in crate::args::ENGINE_CASES {
        if !bench.args.demand(name) {
            continue;
        }
        eprintln!("{name} …");
        if name == "rate-binds" {
            windows::run(bench, report).await?;
            continue;
        }
        for case in case::named(name, bench.args)? {
            beside(bench, report, &plain, case).await?;
        }
    }
    report.note("A rate is jobs that left the tables, counted there, by the time from before the executor's start.");
    Ok(())
}

async fn beside(bench: &Bench<'_>, report: &mut Report, plain: &Case, case: Case) -> Result<()> {
    let (mut ours, mut beside, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.args.runs {
        beside.push(drain::run(bench, plain).await?);
        if let Some(limit) = case.limit {
            bare.push(bare::run(bench, limit, case.jobs).await?);
        }
        ours.push(drain::run(bench, &case).await?);
    }
    let sent = |rates: &[Rates]| rates.iter().map(|rates| rates.send).collect::<Vec<f64>>();
    let drained = |rates: &[Rates]| rates.iter().map(|rates| rates.drain).collect::<Vec<f64>>();
    eprintln!("  {}: {:.0?} beside {:.0?}, bare {:.0?}", case.label, drained(&ours), drained(&beside), drained(&bare));
    // An absolute rate stands beside the bare loop, and a ratio to plain jobs beside those.
    let mut line =
        |name: String, ours: Vec<f64>, required: Option<Required>, limits: [(Option<String>, Vec<f64>); 2]| {
            let mut line = Line::new(name, Unit::PerSecond, ours.clone()).required(required);
            let [(beside, values), (bare, bare_values)] = limits;
            if let Some(beside) = beside {
                line = line.limit(beside, values);
            }
            report.add(line);
            if let Some(bare) = bare {
                report.add(Line::new("… beside the bare loop", Unit::PerSecond, ours).limit(bare, bare_values));
            }
        };
    let of_plain = |what: &str| Some(format!("{what} of {} plain jobs", plain.jobs));
    line(
        case.label,
        drained(&ours),
        case.required.0,
        [(of_plain("drain"), drained(&beside)), (case.limit.map(Limit::drain), drained(&bare))],
    );
    line(
        "… sent, 1,000 in a context".to_owned(),
        sent(&ours),
        case.required.1,
        [(of_plain("send"), sent(&beside)), (case.limit.and_then(Limit::send), sent(&bare))],
    );
    Ok(())
}
