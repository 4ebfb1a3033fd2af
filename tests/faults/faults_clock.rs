//! Clocks that are wrong, or are set: no node is declared dead for it, and nothing is delayed.

use std::process::Command;
use std::time::{Duration, SystemTime};

use jobwright::JobId;
use jobwright::admin::JobState;

use crate::faults::ledger_worker::{Does, Orders, job, send};
use crate::support::environment::{PATIENCE, World};
use crate::support::fake_clock::library;
use crate::support::postgres::Pg;
use crate::support::process::Sign;
use crate::support::{TestDb, eventually};

/// Offsets a process's wall clock. The monotonic clock is not affected, because no setting changes it.
fn off_by(command: &mut Command, offset: &str) {
    command.env("LD_PRELOAD", library()).env("FAKETIME", offset).env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_whose_clocks_are_an_hour_off_keep_time_and_lease() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    for (offset, seconds) in [("+3600s", 3600), ("-3600s", -3600)] {
        db.raw("truncate {schema}.ledger").await;
        let messages = db.messages().await;
        let clock = Sign::new();
        let mut worker =
            Orders::new(&db.config(), "skewed").telling_time_at(&clock).start_with(|command| off_by(command, offset));
        eventually(PATIENCE, async || clock.text().is_some()).await;
        let told: i64 = clock.text().unwrap().parse().unwrap();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64;
        assert!((told - now - seconds).abs() < 30, "the worker's clock is not off: {told} here {now}");

        // Jobs due now and later: none starts early, and all run.
        let mut ids = send::<Pg<false>>(&messages, Does::Note, 20).await;
        let later = messages.send(job(Does::Note).delay(Duration::from_secs(2))).await.unwrap();
        let begun = std::time::Instant::now();
        let sends = messages.send(job(Does::SendDelayed)).await.unwrap();
        db.gone(sends).await;
        // Its jobs are due by the database's clock.
        let jobs = db.jobs().all().await;
        let child = jobs.iter().find(|job| job.id != later && job.state == JobState::Timer).expect("not delayed");
        let delay = child.due_at.unwrap().duration_since(child.created_at).as_secs_f64();
        assert!((delay - 1.5).abs() < 0.01, "{delay}");
        ids.extend([later, sends, child.id]);
        db.gone(later).await;
        assert!(begun.elapsed() >= Duration::from_millis(1900), "early: {:?}", begun.elapsed());
        db.drained().await;
        each_once_but(&db, &ids, sends).await;

        // It kept its lease of one second, as the same node, and is declared dead only after its end.
        let nodes = db.jobs().status().await.unwrap().nodes;
        assert!(
            nodes.len() == 1 && nodes[0].lease_seconds_left > 0.0 && nodes[0].lease_seconds_left < 1.1,
            "{nodes:?}"
        );
        worker.kill();
        let other = Orders::new(&db.config(), "right").start();
        eventually(Duration::from_secs(10), async || {
            let nodes = db.jobs().status().await.unwrap().nodes;
            nodes.len() == 1 && nodes[0].name == "right"
        })
        .await;
        drop(other);
    }
}

async fn each_once_but(db: &Pg<false>, ids: &[JobId], silent: JobId) {
    db.each_once(&ids.iter().copied().filter(|id| *id != silent).collect::<Vec<_>>()).await;
}
