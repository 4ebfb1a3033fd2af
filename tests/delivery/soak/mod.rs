//! Everything at once, for a given time: three producers and three executors as separate processes, a steady 500 jobs a second, and random faults.
//! After the faults have ended, every committed job has taken effect, and none of them twice.
//!
//! `JOBWRIGHT_SOAK_SECONDS` sets the duration (default 20; the real one is 600), `JOBWRIGHT_SOAK_SEED` repeats the faults of an earlier run. The
//! order of jobs is not checked: without groups none is promised.

mod crew;
mod faults;
mod summary;

use std::sync::Arc;
use std::time::{Duration, Instant};

use self::crew::Crew;
use self::faults::Chaos;
use self::summary::{HighWater, Summary, check, empty};
use crate::delivery::site::Site;
use crate::delivery::worker_process::create_sent;
use crate::support::postgres::Pg;
use crate::support::private_rabbit::PrivateRabbit;
use crate::support::seeded_random::Chance;

/// How long the remaining jobs may take after all faults have ended.
const EMPTY: Duration = Duration::from_secs(180);

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_and_nothing_takes_effect_twice() {
    let seconds = number("JOBWRIGHT_SOAK_SECONDS").unwrap_or(20);
    let seed =
        number("JOBWRIGHT_SOAK_SEED").unwrap_or_else(|| u64::from(std::process::id()) * 2_654_435_761 % 1_000_000);
    println!("soak of {seconds} s: JOBWRIGHT_SOAK_SEED={seed}");
    let rabbit = tokio::task::block_in_place(PrivateRabbit::start);
    let Some(site) = Site::<Pg<false>>::on(rabbit.url()).await else { return };
    create_sent(&site).await;
    let crew = Arc::new(Crew::start(&site).await);
    let start = Instant::now();
    let end = start + Duration::from_secs(seconds);
    let chaos = Chaos::new(&site, crew.clone(), rabbit);
    let high_water = HighWater::start(site.db.client().await);

    // Two tasks cause faults, so that faults overlap.
    let members = tokio::spawn(chaos.clone().trouble_members(Chance::new(seed), end));
    let broker = tokio::spawn(chaos.clone().trouble_broker(Chance::new(seed ^ 0xb70c_e2aa), end));
    members.await.unwrap();
    broker.await.unwrap();
    let troubled = start.elapsed();

    crew.stop_producers();
    let stopped = Instant::now();
    let drained = empty(&site, EMPTY).await;
    let summary = Summary {
        seconds: troubled,
        until_empty: stopped.elapsed(),
        backlog: high_water.end(),
        faults: chaos.counts(),
        crew: crew.totals(),
        outcome: check(&site).await,
    };
    println!("{summary}");
    assert!(drained, "jobs are left after {EMPTY:?} (JOBWRIGHT_SOAK_SEED={seed})");
    summary.outcome.assert(seed);
}
