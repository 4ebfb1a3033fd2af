//! A worker under the whole corpus, repeated through every way that reaches it, beside good jobs that have to be on time: no process grows beyond its
//! bounds, and every message is accounted for.
//!
//! `JOBWRIGHT_SIEGE_SECONDS` sets the duration; the real one is 600, with 200 good jobs a second. Without it, 20 s with 100 a second.

mod attack;
mod good;
mod worker;

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jobwright::JobId;
use jobwright::admin::JobState;
use uuid::Uuid;

use self::attack::{Book, Shared};
use self::good::{Peaks, Site};
use self::worker::Keeper;
use crate::support::environment::{PATIENCE, World as _};
use crate::support::postgres::Pg;
use crate::support::private_pg::PrivatePg;
use crate::support::private_rabbit::PrivateRabbit;
use crate::support::{TestDb as _, eventually};

/// Rejected messages and their reasons.
type Aside = Arc<Mutex<Vec<(String, String)>>>;

const MOST_LATE: f64 = 5.0;
const MOST_OF_THE_WORKER: u64 = 150 * 1024;
const MOST_OF_THE_DATABASE: u64 = 500 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn good_jobs_are_on_time_beside_the_whole_corpus() {
    if crate::support::amqp_url().is_none() {
        return;
    }
    let asked = std::env::var("JOBWRIGHT_SIEGE_SECONDS").ok().and_then(|text| text.parse().ok());
    let (seconds, rate) = asked.map_or((20, 100), |seconds| (seconds, 200));
    let (server, rabbit) = tokio::task::block_in_place(|| (PrivatePg::start(), PrivateRabbit::start()));
    let db = Pg::create_on(&server.url()).await;
    db.create_ledger().await;
    db.raw(
        "create table {schema}.sent (id uuid primary key, at timestamptz not null default clock_timestamp());
         alter table {schema}.ledger add at timestamptz not null default clock_timestamp()",
    )
    .await;
    let site = Arc::new(Site::with(db, rabbit.url()));
    let broker = site.messages().await.broker().unwrap().clone();
    broker.apply(&["default".to_owned()], &["paint".to_owned()]).await.unwrap();
    let mut keeper = Keeper::start(&site);
    eventually(PATIENCE, async || keeper.did().is_some()).await;

    let peaks = Arc::new(Peaks::default());
    let broker_pid = tokio::task::block_in_place(|| good::pid_of(&rabbit));
    let watch = good::watch(peaks.clone(), keeper.process.pid(), broker_pid, site.db.client().await);
    let watch = tokio::spawn(watch);
    let aside: [Aside; 2] = Default::default();
    let queues = [site.names().rejected(), site.names().rejected_reports()];
    let mut collectors = Vec::new();
    for (queue, aside) in queues.into_iter().zip(&aside) {
        collectors.push(tokio::spawn(attack::collect(site.clone(), queue, aside.clone())));
    }
    let (book, end) = (Shared::default(), Instant::now() + Duration::from_secs(seconds));
    let produced = tokio::spawn(attack::produce(site.clone(), book.clone(), end));
    let reported = tokio::spawn(attack::report(site.clone(), book.clone(), end));
    let sent = good::send(site.clone(), rate, end).await;
    produced.await.unwrap();
    reported.await.unwrap();

    let book = std::mem::take(&mut *book.lock().unwrap());
    settle(&site, &keeper, &book).await;
    let (late, ran) = lateness(&site).await;
    let kilobytes = |peak: &std::sync::atomic::AtomicU64| peak.load(Ordering::Relaxed);
    watch.abort();
    collectors.iter().for_each(tokio::task::JoinHandle::abort);
    let (submissions, reports) = (aside[0].lock().unwrap().clone(), aside[1].lock().unwrap().clone());
    println!(
        "siege of {seconds} s: {} rounds of the corpus, {} messages, {} refused to their sender, {} submissions and {} reports put aside",
        book.rounds,
        book.said,
        book.refused,
        submissions.len(),
        reports.len()
    );
    println!("  good jobs            {sent} ({:.0}/s), the latest after {late:.2} s", sent as f64 / seconds as f64);
    println!("  worker at most       {} kB", kilobytes(&peaks.worker));
    println!(
        "  PostgreSQL at most   {} kB in one process, {} kB of it its own",
        kilobytes(&peaks.database),
        kilobytes(&peaks.database_anonymous)
    );
    println!("  RabbitMQ at most     {} kB", kilobytes(&peaks.broker));
    println!("  the worker           {:?}", keeper.did().unwrap());

    account(&site, &book, &submissions).await;
    assert!(keeper.process.is_running());
    let did = keeper.did().unwrap();
    // The broker itself moves messages that have expired.
    let by_us = submissions.iter().filter(|(_, reason)| reason != "expired").count() as u64;
    assert_eq!(did.messages_refused, by_us + reports.len() as u64);
    assert_eq!(did.reported + did.reports_refused + reports.len() as u64, book.reports);
    assert!(submissions.iter().chain(&reports).all(|(_, reason)| !reason.is_empty()), "all of them say why");
    assert_eq!(did.leases_lost, 0);
    assert_eq!(ran, sent, "each good one ran once");
    assert!(late <= MOST_LATE, "a good job was late by {late} s");
    assert!(kilobytes(&peaks.worker) <= MOST_OF_THE_WORKER && kilobytes(&peaks.worker) > 0);
    assert!(kilobytes(&peaks.database) <= MOST_OF_THE_DATABASE && kilobytes(&peaks.database) > 0);
}

/// Waits until every message has been processed.
async fn settle(site: &Site, keeper: &Keeper, book: &Book) {
    let (client, database, names) = (site.client().await, site.db.client().await, site.names());
    let count = async |sql: &str| database.query_one(sql, &[]).await.unwrap().get::<_, i64>(0);
    let waiting = "select count(*) from jobs where kind in ('good', 'note') and queue = 'default' and state in ('waiting', 'running', 'blocked')";
    eventually(PATIENCE * 2, async || {
        let queues = [names.submit(), names.reply(), names.rejected(), names.rejected_reports()];
        for queue in queues {
            if client.waiting(&queue).await > 0 {
                return false;
            }
        }
        let did = keeper.did().unwrap();
        did.reported + did.reports_refused + did.messages_refused >= book.reports
            && count(waiting).await == 0
            && count("select count(*) from external_job").await == 0
    })
    .await;
    // Its statistics lag a little, and so does the count of rejected messages.
    let mut before = None;
    eventually(PATIENCE, async || {
        let now = keeper.did();
        tokio::time::sleep(Duration::from_secs(1)).await;
        std::mem::replace(&mut before, now) == now
    })
    .await;
}

/// Returns how late the latest good job was, in seconds, and how many ran.
async fn lateness(site: &Site) -> (f64, u64) {
    let late = "select coalesce(max(extract(epoch from l.at - s.at)), 0)::float8, count(*), count(distinct s.id)
                from sent s join ledger l on l.line = s.id::text";
    let row = site.db.client().await.query_one(late, &[]).await.unwrap();
    let (ran, each): (i64, i64) = (row.get(1), row.get(2));
    assert_eq!(ran, each, "some ran twice");
    (row.get(0), ran.unsigned_abs())
}

/// Asserts that each accepted message has left one trace, and no refused one has left any.
async fn account(site: &Site, book: &Book, aside: &[(String, String)]) {
    let client = site.db.client().await;
    let ids = async |sql: &str| -> BTreeSet<JobId> {
        client.query(sql, &[]).await.unwrap().iter().map(|row| row.get::<_, Uuid>(0).into()).collect()
    };
    let ran = ids("select line::uuid from ledger").await;
    let kept = ids("select id from jobs").await;
    // Duplicates, whose key another job held: they count as that job.
    let remembered = ids("select id from submission").await;
    let aside: BTreeSet<JobId> = aside.iter().filter_map(|(mark, _)| mark.parse().ok()).collect();
    let mut wrong = Vec::new();
    for (id, name) in &book.submitted {
        let traces = [&ran, &kept, &aside].iter().filter(|all| all.contains(id)).count();
        let other = traces == 0 && name.starts_with("unique key") && remembered.contains(id);
        if traces != 1 && !other {
            wrong.push(format!("{name}: {traces} traces of the submission {id}"));
        }
    }
    for (id, name) in &book.stored {
        let traces = [&ran, &kept].iter().filter(|all| all.contains(id)).count();
        // An event is gone once it was published.
        let other = traces == 0 && (name.starts_with("unique key") || name == "queue: jobwright.event");
        if traces != 1 && !other {
            wrong.push(format!("{name}: {traces} traces of {id}, which was sent"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(!book.submitted.is_empty() && !book.stored.is_empty() && book.handed > 0);
    let dead = client.query_one("select count(*) from dead_letter_job where coalesce(reason, '') = ''", &[]).await;
    assert_eq!(dead.unwrap().get::<_, i64>(0), 0, "dead letters say why");
    // Through SQL and the library nothing exists that was not acknowledged.
    let jobs = site.db.jobs().all().await;
    let strange =
        jobs.iter().filter(|job| job.kind == "note" && job.queue == "default" && job.state == JobState::Waiting);
    assert_eq!(strange.count(), 0);
}
