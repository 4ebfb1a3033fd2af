//! The ends of jobs that were taken: done, failed, later, given back.

use std::time::Duration;

use jobwright::admin::{HistoryFilter, HistoryOutcome, JobState};
use jobwright::headers::REPLY_QUEUE;
use jobwright::{JobId, RetryPolicy, Unique};
use serde_json::{Value, json};

use super::{Json, LATE, Site, accepted, call, read, refused};
use crate::support::eventually;
use crate::support::jobs::{job, jobs, set};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn done_is_gone_and_leaves_what_was_asked_for() {
    let Some(site) = Site::create().await else { return };
    site.worker.batch_execute("set jobwright.history = 'all'").await.unwrap();
    let asks = job().reply_to("answers", "c-1").unique(Unique::key("u"));
    let taken = site.taken(asks).await;
    accepted(&site.worker, "done", taken, ", '{\"sum\": 42}', keep => '1 hour'").await;
    assert_eq!(site.jobs.state(taken.id()).await, None);
    let node = site.jobs.node().await;
    let reply = site.jobs.take_from(REPLY_QUEUE, node, 9).await.remove(0);
    assert_eq!(reply.payload.decode::<Value>().unwrap(), json!({ "sum": 42 }));
    assert_eq!((reply.headers["replyTo"].as_str(), reply.headers["correlationId"].as_str()), ("answers", "c-1"));
    assert_eq!(reply.headers["jobId"], taken.id().to_string());
    let kept = "select payload, expires_at between now() + interval '59 minutes' and now() + interval '1 hour' from result where job_id = $1";
    let kept = site.worker.query_one(kept, &[&taken.id]).await.unwrap();
    assert_eq!((kept.get(0), kept.get(1)), (Json(json!({ "sum": 42 })), true));
    let ended = site.jobs.history(&HistoryFilter::default(), 9).await.unwrap();
    assert_eq!(
        (ended.len(), ended[0].outcome, ended[0].id, ended[0].attempt),
        (1, HistoryOutcome::Done, taken.id(), 1)
    );
    assert!(ended[0].started_at.is_some());
    // Its key is free.
    site.taken(job().unique(Unique::key("u"))).await;
    for function in ["done", "release", "extend", "progress"] {
        refused(&site.worker, function, taken, "", LATE).await;
    }
    refused(&site.worker, "fail", taken, ", 'e'", LATE).await;
    refused(&site.worker, "later", taken, ", '1 second'", LATE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_is_retried_by_policy_until_the_last_attempt() {
    let Some(site) = Site::create().await else { return };
    site.worker.batch_execute("set jobwright.history = 'failed'").await.unwrap();
    let policy = RetryPolicy::Fixed(Duration::from_secs(3600));
    let taken = site.taken(job().retry(policy).max_attempts(2)).await;
    accepted(&site.worker, "fail", taken, ", 'no paper', 'tray 2'").await;
    let detail = site.jobs.detail(taken.id()).await;
    let due = detail.summary.due_at.unwrap().duration_since(detail.summary.created_at).as_secs();
    assert_eq!((detail.summary.state, detail.summary.attempt), (JobState::Timer, 1));
    assert!((3600..3700).contains(&due), "{due}");
    assert_eq!((detail.errors[0].error.as_str(), detail.errors[0].detail.as_deref()), ("no paper", Some("tray 2")));
    site.worker.execute("update timer_job set due_at = now()", &[]).await.unwrap();
    assert_eq!(site.jobs.promote().await, 1);
    let again = read(&site.take("1").await[0]);
    accepted(&site.worker, "fail", again, ", 'no ink'").await;
    let detail = site.jobs.detail(taken.id()).await;
    assert_eq!((detail.summary.state, detail.dead.unwrap().1.as_str()), (JobState::Dead, "no ink"));
    assert_eq!(detail.errors.len(), 2);
    let ended = site.jobs.history(&HistoryFilter::default(), 9).await.unwrap();
    let outcomes: Vec<_> = ended.iter().rev().map(|entry| (entry.outcome, entry.error.as_deref())).collect();
    assert_eq!(outcomes, [(HistoryOutcome::Failed, Some("no paper")), (HistoryOutcome::Dead, Some("no ink"))]);
    // A failure for good needs no last attempt.
    let taken = site.taken(job()).await;
    accepted(&site.worker, "fail", taken, ", 'nonsense', dead => true").await;
    assert_eq!(site.jobs.state(taken.id()).await, Some(JobState::Dead));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn later_and_release_cost_no_attempt() {
    let Some(site) = Site::create().await else { return };
    let taken = site.taken(job().max_attempts(1)).await;
    accepted(&site.worker, "release", taken, "").await;
    let detail = site.jobs.detail(taken.id()).await;
    assert_eq!((detail.summary.state, detail.summary.attempt), (JobState::Waiting, 0));
    let again = read(&site.take("1").await[0]);
    accepted(&site.worker, "later", again, ", '0'").await;
    let detail = site.jobs.detail(taken.id()).await;
    assert_eq!((detail.summary.state, detail.summary.attempt), (JobState::Timer, 0));
    assert_eq!(site.jobs.promote().await, 1);
    // A node runs it, with what the worker left.
    let node = site.jobs.node().await;
    let claimed = site.jobs.take_one(node).await;
    assert_eq!((claimed.id, claimed.attempt), (taken.id(), 1));
}

/// Many at once: all or none, or those that are not late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once() {
    let Some(site) = Site::create().await else { return };
    let sent = site.jobs.send_all(jobs(6)).await;
    let taken: Vec<_> = site.take("6").await.iter().map(read).collect();
    let ids: Vec<_> = taken.iter().map(|taken| taken.id).collect();
    let tokens: Vec<_> = taken.iter().map(|taken| taken.token).collect();
    accepted(&site.worker, "release", taken[5], "").await;
    let error = site.worker.query("select done_many($1, $2)", &[&ids, &tokens]).await.unwrap_err();
    let (state, message) = super::told(&error);
    assert_eq!(state, LATE);
    assert!(message.contains(&sent[5].to_string()), "{message}");
    assert_eq!(site.jobs.count(JobState::External).await, 5, "none of them ended");
    let ended = async |sql: &str, range: std::ops::Range<usize>| {
        let rows = site.worker.query(sql, &[&&ids[range.clone()], &&tokens[range]]).await.unwrap();
        set(rows.iter().map(|row| JobId::from(row.get::<_, uuid::Uuid>(0))))
    };
    assert_eq!(ended("select done_many($1, $2)", 0..2).await, set(sent[0..2].to_vec()));
    assert_eq!(ended("select fail_many($1, $2, '{a,b}')", 2..4).await, set(sent[2..4].to_vec()));
    assert_eq!(ended("select release_many($1, $2, strict => false)", 0..6).await, set([sent[4]]));
    assert_eq!(ended("select done_many($1, $2, strict => false)", 0..0).await, set([]));
    let errors: Vec<String> = site
        .jobs
        .find(&jobwright::admin::JobFilter::state(JobState::Timer))
        .await
        .into_iter()
        .filter_map(|job| job.last_error)
        .collect();
    assert_eq!(errors, ["a", "b"]);
    let row = site
        .worker
        .query_one("select count(*) from extend_many($1, $2, strict => false) where state = 'lost'", &[&ids, &tokens])
        .await
        .unwrap();
    assert_eq!(row.get::<_, i64>(0), 6);
}

/// The same delays as the library's, which adds or subtracts up to a fifth by chance.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delays_are_those_of_the_library() {
    let Some(site) = Site::create().await else { return };
    let policies = [
        "exponential(2s, 2, 1h)",
        "exponential(1.5s, 1, 1d)",
        "exponential(0s, 3, 1h)",
        "exponential(250ms, 10, 2h 5m)",
        "fixed(30s)",
        "fixed(PT1M30S)",
        "PT1M,PT5M,PT1H",
        "100ms,1m 30s",
        "fixed(400d)",
        "exponential(PT2S, 1.7, P1D)",
    ];
    for policy in policies {
        // Also as the library writes it.
        let policy: RetryPolicy = policy.parse().unwrap();
        for text in [policy.to_string(), format!(" {policy}")] {
            for attempt in [1, 2, 3, 7, 310, 1_000_000_000] {
                let ours = policy.delay(attempt).as_secs_f64();
                let sql = "select extract(epoch from retry_delay($1, $2))::float8";
                let theirs: f64 =
                    site.worker.query_one(sql, &[&text, &i32::try_from(attempt).unwrap()]).await.unwrap().get(0);
                assert!(
                    theirs >= ours * 0.66 - 1e-6 && theirs <= ours * 1.51 + 1e-6,
                    "{text}, {attempt}: {theirs}, not {ours}"
                );
            }
        }
    }
    for text in ["nonsense", "exponential(1, 2)", "fixed()", ""] {
        let sql = "select extract(epoch from retry_delay($1, 2))::float8";
        let delay: f64 = site.worker.query_one(sql, &[&text]).await.unwrap().get(0);
        assert!((3.2..=4.8).contains(&delay), "{text:?}: {delay}");
    }
}

/// The lease ends, the attempt is spent, and another takes the job. What the first says then changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_dies_loses_its_job_and_one_that_is_late_changes_nothing() {
    let Some(site) = Site::create().await else { return };
    site.jobs.send(job()).await;
    let dead = read(&site.take("1, interval '1 second'").await[0]);
    eventually(Duration::from_secs(20), async || site.jobs.expire_external(10).await.unwrap().waiting == 1).await;
    let again = &site.take("1").await[0];
    assert_eq!((read(again).id, again.get::<_, i32>("attempt")), (dead.id, 2));
    assert_ne!(read(again).token, dead.token);
    site.worker.batch_execute("create table paid (n integer)").await.unwrap();
    site.worker.batch_execute("begin; insert into paid values (1)").await.unwrap();
    let (state, _) = call(&site.worker, "done", dead, "").await.unwrap_err();
    assert_eq!(state, LATE);
    // The transaction can't commit any more.
    site.worker.batch_execute("commit").await.unwrap();
    assert_eq!(site.worker.query("select from paid", &[]).await.unwrap().len(), 0);
    accepted(&site.worker, "done", read(again), "").await;
}
