//! Groups and limits with much work: a million blocked jobs, a hundred thousand groups of which one has a million jobs, ten thousand limits.

use jobwright::NewJob;
use jobwright::store::{Rule, Scope};

use super::place::{BESIDE, Place};
use crate::Result;
use crate::load::{Make, grouped, plain};
use crate::report::{Line, Report, Required, Unit};
use crate::setup::Bench;

/// A queue without executors.
const ELSEWHERE: &str = "elsewhere";

/// Plain and grouped jobs beside very many blocked ones that no executor runs.
pub(super) async fn blocked(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let many = bench.args.count(1_000_000, 50_000);
    // Filling takes longer than the measurement, so both schemas stay, and are measured in turn.
    let (free, full) = (Place::open(bench).await?, Place::open(bench).await?);
    full.send(many, |_, job| job.queue(ELSEWHERE).exclusive("beside")).await?;
    let kinds: [(&str, usize, Make); 2] = [
        ("plain jobs", bench.args.count(50_000, 5_000), plain),
        ("jobs of 1,000 groups", bench.args.count(20_000, 2_000), grouped),
    ];
    for (what, jobs, make) in kinds {
        let (mut ours, mut limit) = (Vec::new(), Vec::new());
        for _ in 0..bench.args.runs {
            for (place, rates) in [(&free, &mut limit), (&full, &mut ours)] {
                place.send(jobs, make).await?;
                rates.push(place.drain(bench, jobs).await?.rate);
            }
        }
        eprintln!("  {what}: {ours:.0?} beside {limit:.0?}");
        report.add(
            Line::new(format!("drain of {jobs} {what} beside {many} blocked"), Unit::PerSecond, ours)
                .limit("the same without them", limit)
                .required(Required::Ratio(0.9)),
        );
    }
    free.close(bench).await?;
    full.close(bench).await
}

/// Groups of one job each, beside one that has a million.
pub(super) async fn hot(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let (groups, many) = (bench.args.count(100_000, 2_000), bench.args.count(1_000_000, 20_000));
    let (even, uneven) = (Place::open(bench).await?, Place::open(bench).await?);
    let hot = |_: usize, job: NewJob| job.exclusive("hot");
    uneven.send_kind(BESIDE, many, hot).await?;
    let (mut ours, mut limit, mut beside) = (Vec::new(), Vec::new(), 0);
    for _ in 0..bench.args.runs {
        even.send_kind(BESIDE, 1, hot).await?;
        for (place, rates) in [(&even, &mut limit), (&uneven, &mut ours)] {
            place.send(groups - 1, |n, job| job.exclusive(format!("group-{n}"))).await?;
            let drained = place.drain(bench, groups - 1).await?;
            rates.push(drained.rate);
            beside += drained.beside;
        }
    }
    eprintln!("  {ours:.0?} beside {limit:.0?}");
    report.add(
        Line::new(format!("drain of {groups} groups, one of them with {many} jobs"), Unit::PerSecond, ours)
            .limit("the same, each with one job", limit),
    );
    report.note(format!(
        "{groups} groups: from the executor's start until the {} with one job each are done. All jobs that ended meanwhile count: in all runs \
         together {beside} of the large group.",
        groups - 1
    ));
    even.close(bench).await?;
    uneven.close(bench).await
}

/// Jobs of many limit keys, each with a limit that is not reached.
pub(super) async fn keys(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let jobs = bench.args.count(20_000, 2_000);
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    for _ in 0..bench.args.runs {
        limit.push(keyed(bench, jobs, |n, job| job.limit_key(format!("key-{}", n % 100))).await?);
        ours.push(keyed(bench, jobs, |n, job| job.limit_key(format!("key-{}", n % 10_000))).await?);
    }
    eprintln!("  {ours:.0?} beside {limit:.0?}");
    report.add(
        Line::new(format!("drain of {jobs} jobs of 10,000 limit keys"), Unit::PerSecond, ours)
            .limit("the same jobs of 100 keys", limit),
    );
    Ok(())
}

async fn keyed(bench: &Bench<'_>, jobs: usize, make: Make) -> Result<f64> {
    let place = Place::open(bench).await?;
    place.schema.services().await?.admin().put_rule(&Rule::new(Scope::Key, "*").running(1_000)).await?;
    place.send(jobs, make).await?;
    let rate = place.drain(bench, jobs).await?.rate;
    place.close(bench).await?;
    Ok(rate)
}
