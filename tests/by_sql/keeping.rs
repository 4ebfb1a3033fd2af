//! How a worker keeps its jobs: leases that it extends, and cancellations that it is told of.

use std::time::Duration;

use jiff::Timestamp;
use jobwright::admin::{JobFilter, JobState};
use serde_json::json;

use super::{CANCELLED, Json, LATE, Site, accepted, call, read, refused};
use crate::support::eventually;
use crate::support::jobs::{job, jobs};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_extended_for_as_long_as_before_or_as_asked() {
    let Some(site) = Site::create().await else { return };
    site.jobs.send(job()).await;
    let row = &site.take("1, interval '10 minutes'").await[0];
    let (taken, first): (_, Timestamp) = (read(row), row.get("lease_until"));
    let until = async |arguments: &str| -> Timestamp {
        let sql = format!("select extend($1, $2{arguments})");
        site.worker.query_one(&sql, &taken.names()).await.unwrap().get(0)
    };
    let same = until("").await;
    assert!(same > first && same < first + Duration::from_secs(60));
    let longer = until(", '1 hour'").await;
    assert!(longer > same + Duration::from_secs(2900));
    // The new length is the one that is kept.
    assert!(until("").await > longer);
    assert_eq!(site.jobs.expire_external(10).await.unwrap().total(), 0);
}

/// A cancelled job is no longer there. Its worker is told, and what it held becomes free when the worker says that it has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_job_keeps_its_group_until_its_worker_has_ended() {
    let Some(site) = Site::create().await else { return };
    for end in ["release", "done", "fail", "lease"] {
        site.jobs.send_all([job().exclusive("g"), job().exclusive("g")]).await;
        assert_eq!(site.jobs.admit_all().await, 1);
        let lease = if end == "lease" { "1 second" } else { "1 hour" };
        let taken = read(&site.take(&format!("9, interval '{lease}'")).await[0]);
        assert_eq!(site.jobs.cancel(&JobFilter::ids([taken.id()]), false).await.unwrap().total(), 1);
        let (state, message) = call(&site.worker, "extend", taken, "").await.unwrap_err();
        assert_eq!(state, CANCELLED, "{message}");
        let sql = "select state from extend_many(array[$1::uuid], array[$2::uuid], strict => false)";
        assert_eq!(site.worker.query_one(sql, &taken.names()).await.unwrap().get::<_, &str>(0), "cancelled");
        assert_eq!(call(&site.worker, "done", taken, "").await.unwrap_err().0, CANCELLED);
        assert_eq!(site.jobs.admit_all().await, 0, "the group is taken");
        if end == "lease" {
            eventually(Duration::from_secs(20), async || site.jobs.expire_external(9).await.unwrap().ended == 1).await;
        } else {
            let error = if end == "fail" { ", 'e'" } else { "" };
            let answer = call(&site.worker, end, taken, &format!("{error}, strict => false")).await;
            assert_eq!(answer, Ok(Some("false".to_owned())));
        }
        refused(&site.worker, "extend", taken, "", LATE).await;
        assert_eq!(site.jobs.admit_all().await, 1, "after {end}");
        let next = read(&site.take("9").await[0]);
        accepted(&site.worker, "done", next, "").await;
        site.jobs.admit_all().await;
        assert_eq!(site.worker.query("select from permit", &[]).await.unwrap().len(), 0);
    }
}

/// A job that held nothing: its worker is told all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_worker_of_a_plain_job_is_told_too() {
    let Some(site) = Site::create().await else { return };
    let taken = site.taken(job()).await;
    site.jobs.cancel(&JobFilter::ids([taken.id()]), false).await.unwrap();
    assert_eq!(call(&site.worker, "done", taken, "").await.unwrap_err().0, CANCELLED);
    // The id may be sent again meanwhile, and its next hand-out is another.
    let sent = job().id(taken.id());
    site.jobs.send(sent).await;
    let next = read(&site.take("1").await[0]);
    assert_eq!((next.id, next.token == taken.token), (taken.id, false));
    assert_eq!(call(&site.worker, "release", taken, ", strict => false").await, Ok(Some("false".to_owned())));
    refused(&site.worker, "done", taken, "", LATE).await;
    accepted(&site.worker, "done", next, "").await;
    assert_eq!(site.worker.query("select from terminating_handler", &[]).await.unwrap().len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_adds_to_what_was_said() {
    let Some(site) = Site::create().await else { return };
    let taken = site.taken(job()).await;
    accepted(&site.worker, "progress", taken, ", 10, 'begun'").await;
    accepted(&site.worker, "progress", taken, ", checkpoint => '[1]'").await;
    let row = site.worker.query_one("select percent, note, checkpoint from progress", &[]).await.unwrap();
    assert_eq!((row.get::<_, i16>(0), row.get::<_, &str>(1), row.get(2)), (10, "begun", Json(json!([1]))));
}

/// The worker is seen, whatever it found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_are_noted_once_and_forgotten_after_a_day() {
    let Some(site) = Site::create().await else { return };
    site.jobs.send_all(jobs(2)).await;
    for _ in 0..3 {
        site.take("1, kinds => '{kind}'").await;
    }
    let noted = "select name, queue, kinds from worker";
    let rows = site.worker.query(noted, &[]).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].get::<_, &str>(0), rows[0].get::<_, &str>(1)), ("test", "default"));
    assert_eq!(rows[0].get::<_, Vec<String>>(2), ["kind"]);
    site.worker.execute("update worker set heard_at = now() - interval '2 days'", &[]).await.unwrap();
    site.worker.query("select * from take('default', 'other')", &[]).await.unwrap();
    let rows = site.worker.query(noted, &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<&str>>(), ["other"]);
    assert_eq!(site.jobs.count(JobState::External).await, 2);
}

/// A step that gives its job back goes on from its checkpoint, and another job under the same id begins at the beginning.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkpoint_lasts_until_its_job_is_done() {
    let Some(site) = Site::create().await else { return };
    let mut taken = site.taken(job()).await;
    for (end, arguments) in [("release", ""), ("later", ", '0'")] {
        accepted(&site.worker, "progress", taken, ", checkpoint => '{\"row\": 5}'").await;
        accepted(&site.worker, end, taken, arguments).await;
        site.jobs.promote().await;
        let row = &site.take("1").await[0];
        assert_eq!(
            (row.get::<_, i32>("attempt"), row.get("checkpoint")),
            (1, Some(Json(json!({ "row": 5 })))),
            "{end}"
        );
        taken = read(row);
    }
    accepted(&site.worker, "done", taken, "").await;
    site.jobs.send(job().id(taken.id())).await;
    assert_eq!(site.take("1").await[0].get::<_, Option<Json>>("checkpoint"), None);
}
