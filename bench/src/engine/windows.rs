//! A rate that binds: no window has more starts than it allows, and how much of it was used.

use std::time::{Duration, Instant};

use jobwright::admin::{Rule, Scope};
use jobwright::{CommandExecutor, HistoryConfig, Job, Keep, Outcome};
use serde_json::json;

use super::drain::settled;
use crate::Result;
use crate::cases::{emptied, wait_done};
use crate::load::{BATCH, KIND, QUEUE, job, left_in_queue, raw_payload, send};
use crate::report::{Line, Report, Required, Unit};
use crate::setup::Bench;

/// How many may start within the period.
const STARTS: usize = 500;
const PERIOD: Duration = Duration::from_millis(250);

pub(super) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let jobs = bench.args.count(20, 4) * STARTS;
    let (mut most, mut early, mut used) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.args.runs {
        let starts = starts(bench, jobs).await?;
        report.raw(json!({ "case": "rate-binds", "starts_ms": moments(&starts) }));
        most.push(fullest(&starts) as f64);
        early.push(too_early(&starts));
        used.push(share(&starts)?);
    }
    eprintln!("  at most {most:.0?} in a window, {early:.2?} ms too early, {used:.3?} of the rate");
    let rate = format!("{STARTS} starts in any {} ms", PERIOD.as_millis());
    report.add(
        Line::new(format!("{jobs} jobs under a rate of {rate}: of it used"), Unit::Share, used)
            .required(Required::AtLeast(0.95)),
    );
    report
        .add(Line::new("… starts in the fullest window", Unit::Count, most).required(Required::AtMost(STARTS as f64)));
    report.add(Line::new("… by how much a start was too early", Unit::Milliseconds, early));
    report.note(format!(
        "Starts are the moments of claims by the database's clock, from the history. All of the rate would be used if {STARTS} jobs \
         started at once, and as many at the end of each period."
    ));
    Ok(())
}

/// Returns when each job was claimed, in microseconds, in order.
async fn starts(bench: &Bench<'_>, jobs: usize) -> Result<Vec<i64>> {
    let mut schema = bench.schema().await?;
    schema.config.history = HistoryConfig::default().keep(Keep::All);
    let services = schema.services().await?;
    let rate = u32::try_from(STARTS)?;
    services.admin().put_rule(&Rule::new(Scope::Queue, QUEUE).rate(rate, PERIOD)).await?;
    let payload = raw_payload()?;
    send(&services, jobs, |_| job(&payload)).await?;
    drop(services);
    settled(bench, &schema).await?;
    let started = Instant::now();
    let executor = CommandExecutor::builder(schema.services().await?)
        .handle(KIND, |_: Job| async { Ok(Outcome::Done) })
        .queue(QUEUE, 2 * BATCH)
        .start()
        .await?;
    wait_done(&executor, jobs).await?;
    let elapsed = started.elapsed();
    emptied(left_in_queue(bench.server.client(), &schema, QUEUE).await?)?;
    executor.shutdown(Duration::from_secs(5)).await?;
    let sql = format!(
        "select (extract(epoch from started_at) * 1000000)::int8 from {}.history where outcome = 'done' order by started_at",
        schema.name
    );
    let starts: Vec<i64> = bench.server.client().query(&sql, &[]).await?.iter().map(|row| row.get(0)).collect();
    bench.drop(schema).await?;
    if starts.len() != jobs {
        return Err(format!("the history has {} starts of {jobs} jobs", starts.len()).into());
    }
    // The history must agree with the measured time.
    let span = starts[jobs - 1] - starts[0];
    if Duration::from_micros(span.unsigned_abs()) > elapsed {
        return Err(format!(
            "{jobs} jobs started within {span} µs by the history, and within {elapsed:?} by the clock"
        )
        .into());
    }
    Ok(starts)
}

/// Returns the first and the last start of each batch that may share a period, in milliseconds from the first start of all.
fn moments(starts: &[i64]) -> Vec<[f64; 2]> {
    let since = |start: i64| (start - starts[0]) as f64 / 1000.0;
    starts.chunks(STARTS).map(|some| [since(some[0]), since(some[some.len() - 1])]).collect()
}

/// Returns the largest number of starts within any period.
fn fullest(starts: &[i64]) -> usize {
    let period = PERIOD.as_micros() as i64;
    let mut first = 0;
    let mut most = 0;
    for (n, &start) in starts.iter().enumerate() {
        while starts[first] + period <= start {
            first += 1;
        }
        most = most.max(n + 1 - first);
    }
    most
}

/// Returns by how many milliseconds the worst start was too early: the period begins with the start `STARTS` before it.
fn too_early(starts: &[i64]) -> f64 {
    let period = PERIOD.as_micros() as i64;
    let worst = starts.iter().zip(starts.iter().skip(STARTS)).map(|(before, start)| period - (start - before)).max();
    worst.unwrap_or_default().max(0) as f64 / 1000.0
}

/// Returns the shortest time that these starts may take under the rate, divided by the time they took.
fn share(starts: &[i64]) -> Result<f64> {
    let (Some(first), Some(last)) = (starts.first(), starts.last()) else { return Err("nothing started".into()) };
    let least = PERIOD.as_micros() as f64 * (starts.len().div_ceil(STARTS) - 1) as f64;
    Ok(least / (last - first) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a batch of starts at each end of a period, some µs apart, the last one earlier by this many µs.
    fn batches(early: i64) -> Vec<i64> {
        let period = PERIOD.as_micros() as i64;
        let batch = |n: i64, at: i64| (0..STARTS as i64).map(move |k| n * period + k + at);
        batch(0, 0).chain(batch(1, 0)).chain(batch(2, -early)).collect()
    }

    #[test]
    fn one_start_too_early_is_seen() {
        assert_eq!((fullest(&batches(0)), too_early(&batches(0)) > 0.0), (STARTS, false));
        assert_eq!((fullest(&batches(1)), too_early(&batches(1)) > 0.0), (STARTS + 1, true));
    }

    #[test]
    fn a_late_start_uses_less() {
        assert!(share(&batches(0)).unwrap() > 0.99);
        assert!(share(&batches(-50_000)).unwrap() < 0.95);
    }
}
