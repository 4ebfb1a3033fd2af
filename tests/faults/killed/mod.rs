//! Worker processes are killed, or stopped and continued, at random times, while jobs of groups, under limits, with unique keys and of schedules run.
//! Each handler logs what it does. By that log no jobs overlapped that must not, no limit was exceeded, no key had two jobs, each occurrence fired
//! once, everything took effect exactly once, and nothing is left.
//!
//! `JOBWRIGHT_KILLED_SECONDS` sets the duration (default 10), `JOBWRIGHT_KILLED_SEED` repeats the jobs and faults of an earlier run.

mod attempts;
mod broker_names;
mod check;
mod checks_fail;
mod event_log;
mod load;
mod worker;
mod worker_processes;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use jobwright::{BrokerConfig, MessageServices};

use self::attempts::Past;
use self::broker_names::Corner;
use self::event_log::Book;
use self::load::{EVERY, GUARD, Sent};
use self::worker::Orders;
use self::worker_processes::Member;
use crate::support::environment::{PATIENCE, World as _};
use crate::support::postgres::Pg;
use crate::support::seeded_random::Chance;
#[cfg(feature = "sqlite")]
use crate::support::sqlite::SqliteDb;
use crate::support::{TestDb as _, eventually};

/// Processes at a time.
const MEMBERS: u64 = 3;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres() {
    let Some(db) = Pg::<false>::create().await else { return };
    let messages = db.messages().await;
    killed_at_random(&db, &messages, None, Rules::Some).await;
}

/// Without rules, completing a job of a group claims the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_without_rules() {
    let Some(db) = Pg::<false>::create().await else { return };
    let messages = db.messages().await;
    killed_at_random(&db, &messages, None, Rules::None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_with_rabbitmq() {
    let Some(corner) = Corner::new(&["default", "narrow"]) else { return };
    let Some(db) = Pg::<false>::create().await else { return };
    let messages = corner.at_broker(db.messages().await).await;
    let past = killed_at_random(&db, &messages, Some(&corner.broker), Rules::Some).await;
    let broker = messages.broker().unwrap();
    println!("  {:?}", broker.stats());
    // How many of them were claimed before the first poll depends on which nodes lived.
    assert!(broker.stats().confirmed > 0, "nothing went through the broker: this was a test of the table");
    assert!(past.totals.claims > past.totals.delivered, "groups go by the table");
    broker.close(Duration::from_millis(500)).await;
}

/// Several processes share a file. One that is stopped while it writes blocks all of them for that long.
#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_an_embedded_database() {
    let Some(db) = SqliteDb::create().await else { return };
    let messages = MessageServices::sqlite(&db.config()).await.unwrap();
    killed_at_random(&db, &messages, None, Rules::Some).await;
}

/// Whether anything is limited. If not, most jobs of groups end without their own transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    Some,
    None,
}

async fn killed_at_random<W: Book>(
    db: &W,
    messages: &MessageServices<W::Store>,
    broker: Option<&BrokerConfig>,
    rules: Rules,
) -> Past {
    let seconds = number("JOBWRIGHT_KILLED_SECONDS").unwrap_or(10);
    let seed =
        number("JOBWRIGHT_KILLED_SEED").unwrap_or_else(|| u64::from(std::process::id()) * 2_654_435_761 % 1_000_000);
    println!("killed at random for {seconds} s: JOBWRIGHT_KILLED_SEED={seed}");
    db.open_book().await;
    let (pen, store) = (W::pen(&db.config()).await, messages.engine());
    if rules == Rules::Some {
        load::put_rules(&messages.admin()).await;
    }
    load::put_schedules(messages).await;

    let orders = |n| Orders::new(format!("worker {n}"), &db.config(), broker);
    let mut members: Vec<Member> = (0..MEMBERS).map(|n| Member::start(orders(n))).collect();
    let end = Instant::now() + Duration::from_secs(seconds);
    let chance = |n: u64| Chance::new(seed ^ (n << 32));
    let troubles = join_all(members.iter_mut().zip(10..).map(|(member, n)| member.trouble(chance(n), end)));
    let (sent, (), (), _) = tokio::join!(
        load::send::<W>(messages, &pen, (chance(1), rules), end),
        async {
            if rules == Rules::Some {
                load::change_rules(&messages.admin(), chance(2), end).await;
            }
        },
        watch::<W>(&pen, &**store, (seed, rules), end),
        troubles,
    );

    for (name, _) in [EVERY, GUARD] {
        messages.schedules().pause(name).await.unwrap();
    }
    let stopped = Instant::now();
    eventually(PATIENCE, async || W::left(&pen).await == (0, 0)).await;
    // Dead nodes are declared dead and forgotten: nothing is done in their names any more.
    eventually(PATIENCE, async || {
        let nodes = store.status().await.unwrap().nodes;
        nodes.len() == members.len() && nodes.iter().all(|node| !node.dead)
    })
    .await;
    println!("  empty after {:.1} s", stopped.elapsed().as_secs_f64());
    let faults = store.permit_faults().await.unwrap();
    assert!(faults.is_empty(), "{faults:?} (JOBWRIGHT_KILLED_SEED={seed})");
    let past = rules.judged(Past::of(&W::read(&pen).await));
    tell(&past, &sent, &members);
    let mut fired = BTreeMap::new();
    for (name, _) in [EVERY, GUARD] {
        fired.insert(name.to_owned(), messages.schedules().get(name).await.unwrap().unwrap().fired);
    }
    assert_none(&check::finally(&past, &sent, &fired), seed);
    assert!(past.totals.lost > 0, "no process was killed in the middle of anything");
    past
}

impl Rules {
    fn judged(self, mut past: Past) -> Past {
        past.unruled = self == Self::None;
        past
    }
}

/// Checks the event log while it is written. Reading it takes longer as it grows, and so do the pauses.
async fn watch<W: Book>(
    pen: &W::Pen,
    store: &dyn jobwright::internal::engine::Operator,
    (seed, rules): (u64, Rules),
    end: Instant,
) {
    let mut pause = Duration::from_secs(1);
    while Instant::now() + pause < end {
        tokio::time::sleep(pause).await;
        let start = Instant::now();
        let faults = store.permit_faults().await.unwrap();
        assert!(faults.is_empty(), "{faults:?} (JOBWRIGHT_KILLED_SEED={seed})");
        assert_none(&check::always(&rules.judged(Past::of(&W::read(pen).await))), seed);
        pause = pause.max(start.elapsed() * 20);
    }
}

#[track_caller]
fn assert_none(wrong: &[String], seed: u64) {
    let some = wrong[..wrong.len().min(20)].join("\n  ");
    assert!(wrong.is_empty(), "{} things are wrong (JOBWRIGHT_KILLED_SEED={seed}):\n  {some}", wrong.len());
}

fn tell(past: &Past, sent: &Sent, members: &[Member]) {
    println!(
        "  sent {}, by handlers {}; not sent as their key was held {}",
        sent.jobs.len(),
        past.sent.len(),
        sent.kept_out
    );
    println!("  attempts {}; {:?}", past.attempts.len(), past.totals);
    println!("  at most at a time {:?}", check::most(past));
    for member in members {
        println!("  {:?}", member.counts);
    }
}
