//! Whole worker processes are killed, and stopped and waked up, at random moments, while jobs of groups, under limits, with unique
//! keys and of schedules run. What each handler did is in a book; by it nothing overlapped that must not, no limit was exceeded,
//! no key had two jobs, each occurrence fired once, everything took effect exactly once, and nothing is left.
//!
//! `JOBWRIGHT_KILLED_SECONDS` says how long (default 10), `JOBWRIGHT_KILLED_SEED` repeats the choice of jobs and faults of an
//! earlier run.

mod attempts;
mod book;
mod check;
mod corner;
mod crew;
mod hands;
mod load;
mod proof;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use jobwright::{BrokerConfig, MessageServices};

use self::attempts::Past;
use self::book::Book;
use self::corner::Corner;
use self::crew::Member;
use self::hands::Orders;
use self::load::{EVERY, GUARD, Sent};
use crate::support::chance::Chance;
use crate::support::postgres::Pg;
#[cfg(feature = "sqlite")]
use crate::support::sqlite::SqliteDb;
use crate::support::world::{PATIENCE, World as _};
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

/// Then the end of a job of a group claims the next one.
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
    // How many of them were claimed before the table was looked at is a matter of who was alive.
    assert!(broker.stats().confirmed > 0, "nothing went through the broker: this was a test of the table");
    assert!(past.totals.claims > past.totals.delivered, "groups go by the table");
    broker.close(Duration::from_millis(500)).await;
}

/// Several processes on one file. One that is stopped while it writes stops all of them for that long.
#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_an_embedded_database() {
    let Some(db) = SqliteDb::create().await else { return };
    let messages = MessageServices::sqlite(&db.config()).await.unwrap();
    killed_at_random(&db, &messages, None, Rules::Some).await;
}

/// Whether anything is limited. Where nothing is, most jobs of groups end without a transaction of their own.
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
    let (pen, store) = (W::pen(&db.config()).await, messages.jobs());
    if rules == Rules::Some {
        load::put_rules(&**store).await;
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
                load::change_rules(&**store, chance(2), end).await;
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
    // The dead are known to be dead, and forgotten: nothing is done in their name any more.
    eventually(PATIENCE, async || {
        let nodes = store.status().await.unwrap().nodes;
        nodes.len() == members.len() && nodes.iter().all(|node| !node.dead)
    })
    .await;
    println!("  empty after {:.1} s", stopped.elapsed().as_secs_f64());
    let faults = store.slot_faults().await.unwrap();
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

/// Looks at the book while it is written. What it takes to read it grows; the pauses grow with it.
async fn watch<W: Book>(
    pen: &W::Pen,
    store: &dyn jobwright::store::JobStore,
    (seed, rules): (u64, Rules),
    end: Instant,
) {
    let mut pause = Duration::from_secs(1);
    while Instant::now() + pause < end {
        tokio::time::sleep(pause).await;
        let start = Instant::now();
        let faults = store.slot_faults().await.unwrap();
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
