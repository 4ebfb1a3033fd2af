//! Our jobs, run by external workers in other languages.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use jobwright::admin::JobState;
use jobwright::{JobId, NewJob};
use serde_json::{Value, json};

use crate::interop::programs::Stage;
use crate::interop::site::{HERE, Site, THERE};
use crate::support::TestDb as _;
use crate::support::environment::{PATIENCE, World as _};
use crate::support::eventually;

/// Longer than any of these tests.
const LONG: Duration = Duration::from_secs(300);

fn job(kind: &str) -> NewJob {
    NewJob::json(kind, &json!({ "text": "Grüezi" })).queue(THERE)
}

/// Every way a job can end is recorded, and its result reaches the client that asked for it.
pub(crate) async fn keeps_the_reports_of_workers(stage: &Stage) {
    let site = Site::set(&stage.broker).await;
    let answers = format!("{}.answers", stage.broker.prefix);
    stage.broker.declare(&answers).await;
    let node = site.hands_out(LONG).await;
    let mut undone = site.messages.begin();
    undone.send(job("print")).unwrap();
    undone.transaction().await.unwrap().execute("insert into ledger (line) values ('undone')", &[]).await.unwrap();
    undone.rollback().await.unwrap();
    let mut cx = site.messages.begin();
    cx.transaction().await.unwrap().execute("insert into ledger (line) values ('order')", &[]).await.unwrap();
    let print = cx.send(job("print").reply_to(&answers, "c-1")).unwrap();
    let slow = cx.send(job("slow").reply_to(&answers, "c-2")).unwrap();
    let [fail, retry, later] = ["fail", "retry", "later"].map(|kind| cx.send(job(kind).max_attempts(2)).unwrap());
    cx.commit().await.unwrap();

    let lines = stage.run("worker", &[THERE, "6", "60"]).await.lines();
    let expected = [
        format!("ready {THERE}"),
        format!("done {print} print attempt 1"),
        format!("extend {slow}"),
        format!("done {slow} slow attempt 1"),
        format!("failed {fail} fail attempt 1"),
        format!("failed {retry} retry attempt 1"),
        format!("failed {later} later attempt 1"),
        // By the policy for failures: a few seconds later.
        format!("failed {retry} retry attempt 2"),
    ];
    assert_eq!(lines, expected);

    eventually(PATIENCE, async || node.stats().reported == 6).await;
    let jobs = site.db.jobs();
    assert_eq!((jobs.state(print).await, jobs.state(slow).await), (None, None));
    let dead = jobs.detail(fail).await;
    assert_eq!((dead.summary.state, dead.summary.attempt), (JobState::Dead, 1));
    assert_eq!((dead.errors[0].error.as_str(), dead.errors[0].node), ("told to fail", 0));
    assert_eq!(dead.errors[0].detail.as_deref(), Some("PermanentFailure").map(|name| stage.class(name)).as_deref());
    let dead = jobs.detail(retry).await;
    assert_eq!((dead.summary.state, dead.summary.attempt), (JobState::Dead, 2));
    assert_eq!(dead.errors.iter().map(|error| error.error.as_str()).collect::<Vec<_>>(), ["told to try again"; 2]);
    let waits = jobs.detail(later).await;
    assert_eq!((waits.summary.state, waits.summary.attempt), (JobState::Timer, 1));
    assert_eq!(waits.summary.last_error.as_deref(), Some("told to try later"));
    let delay = waits.summary.due_at.unwrap().duration_since(Timestamp::now()).as_secs();
    assert!((200..=300).contains(&delay), "{delay} s");

    let mut results = Vec::new();
    for (properties, body) in stage.broker.take(&answers, 2).await {
        let about = properties.headers().as_ref().unwrap().inner()["jobId"].as_long_string().unwrap().to_string();
        let correlation = properties.correlation_id().as_ref().unwrap().to_string();
        let body: Value = serde_json::from_slice(&body).unwrap();
        results.push((correlation, about, body));
    }
    results.sort_by(|a, b| a.0.cmp(&b.0));
    // As the worker got it: PostgreSQL formats JSON in its own way.
    let bytes = json!({ "text": "Grüezi" }).to_string().len() + 1;
    let result = json!({ "bytes": bytes, "by": stage.language.name() });
    assert_eq!(
        results,
        [("c-1".to_owned(), print.to_string(), result), ("c-2".to_owned(), slow.to_string(), Value::Null)]
    );
    eventually(PATIENCE, async || node.stats().relayed == 2).await;
    let stats = node.shutdown(PATIENCE).await.unwrap();
    assert_eq!((stats.handed_out, stats.reports_refused, stats.messages_refused), (6, 0, 0));
    assert_eq!(site.db.ledger().await, [("order".to_owned(), 1)].into());
}

/// A job takes longer than its lease, which the worker extends: no other worker gets it.
pub(crate) async fn keeps_a_long_job_with_its_worker(stage: &Stage) {
    let site = Site::set(&stage.broker).await;
    let node = site.hands_out(Duration::from_secs(3)).await;
    let id = site.messages.send(job("slow").header("seconds", "5")).await.unwrap();
    let mut expected = vec![format!("ready {THERE}")];
    expected.extend((0..5).map(|_| format!("extend {id}")));
    expected.push(format!("done {id} slow attempt 1"));
    assert_eq!(stage.run("worker", &[THERE, "1", "60"]).await.lines(), expected);
    site.db.gone(id).await;
    let stats = node.shutdown(PATIENCE).await.unwrap();
    assert_eq!((stats.handed_out, stats.reported, stats.reports_refused), (1, 1, 0));
}

/// A worker is killed in the middle: its job is handed out again after its lease, and done by a program in the other language. A copy of the first
/// hand-out that the broker kept is done too, and its report refused.
pub(crate) async fn hands_out_the_jobs_of_a_killed_worker_again(stage: &Stage) {
    let site = Site::set(&stage.broker).await;
    let node = site.hands_out(Duration::from_secs(4)).await;
    let id = site.messages.send(job("slow").header("seconds", "2")).await.unwrap();
    let mut worker = stage.start(stage.language, "worker", &[THERE]);
    assert_eq!(worker.line().await, format!("ready {THERE}"));
    assert_eq!(worker.line().await, format!("extend {id}"));
    worker.kill().await;
    site.db.reaches(id, JobState::Waiting).await;
    let lost = site.db.jobs().detail(id).await;
    assert_eq!(lost.summary.attempt, 1);
    assert!(lost.errors[0].error.starts_with("lease expired"), "{:?}", lost.errors);

    let lines = stage.run_in(stage.language.other(), "worker", &[THERE, "2", "60"]).await.lines();
    let expected = [
        format!("ready {THERE}"),
        format!("extend {id}"),
        format!("extend {id}"),
        format!("done {id} slow attempt 1"),
        format!("extend {id}"),
        format!("extend {id}"),
        format!("done {id} slow attempt 2"),
    ];
    assert_eq!(lines, expected);
    site.db.gone(id).await;
    let stats = node.shutdown(PATIENCE).await.unwrap();
    assert_eq!((stats.handed_out, stats.reported, stats.reports_refused), (2, 1, 3));
}

/// A worker is killed in the middle while another waits: that one, in the other language, gets the job at once, as the same hand-out.
pub(crate) async fn passes_on_the_jobs_of_a_killed_worker(stage: &Stage) {
    let site = Site::set(&stage.broker).await;
    let node = site.hands_out(LONG).await;
    let id = site.messages.send(job("slow").header("seconds", "2")).await.unwrap();
    let mut worker = stage.start(stage.language, "worker", &[THERE]);
    assert_eq!(worker.line().await, format!("ready {THERE}"));
    assert_eq!(worker.line().await, format!("extend {id}"));
    worker.pause().await;
    let mut other = stage.start(stage.language.other(), "worker", &[THERE]);
    assert_eq!(other.line().await, format!("ready {THERE}"));
    worker.kill().await;
    for expected in [format!("extend {id}"), format!("extend {id}"), format!("done {id} slow attempt 1")] {
        assert_eq!(other.line().await, expected);
    }
    site.db.gone(id).await;
    other.kill().await;
    let stats = node.shutdown(PATIENCE).await.unwrap();
    assert_eq!((stats.handed_out, stats.reported, stats.reports_refused), (1, 1, 0));
}

/// One language submits and the other works: nothing is lost or done twice.
pub(crate) async fn takes_in_from_one_and_hands_out_to_the_other(stage: &Stage) {
    const JOBS: usize = 200;
    let site = Site::set(&stage.broker).await;
    let broker = &stage.broker;
    let node = site.node().queue(HERE, 1).external_queue(jobwright::ExternalQueue::new(THERE).lease(LONG));
    let node = node.start().await.unwrap();
    let jobs = JOBS.to_string();
    let submit = async {
        // Twice, as after a failure.
        for _ in 0..2 {
            let lines = stage.run("producer", &["print", &jobs, &broker.prefix, THERE]).await.lines();
            assert_eq!(lines.len(), JOBS + 1);
        }
    };
    let arguments = [THERE, &jobs, "60"];
    let ((), worked) = tokio::join!(submit, stage.run_in(stage.language.other(), "worker", &arguments));
    let lines = worked.lines();
    let done: BTreeSet<JobId> = lines[1..]
        .iter()
        .map(|line| {
            let [word, id, "print", "attempt", "1"] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            assert_eq!(word, "done");
            id.parse().unwrap()
        })
        .collect();
    assert_eq!((lines.len(), done.len()), (JOBS + 1, JOBS));
    site.db.drained().await;
    assert_eq!(site.db.submitted().await, done);
    for queue in [broker.names.submit(), broker.names.external(THERE), broker.names.reply(), broker.names.dead()] {
        eventually(PATIENCE, async || broker.waiting(&queue).await == 0).await;
    }
    let stats = node.shutdown(PATIENCE).await.unwrap();
    let count = JOBS as u64;
    assert_eq!((stats.submitted, stats.handed_out, stats.reported), (count, count, count));
    assert_eq!((stats.reports_refused, stats.messages_refused), (0, 0));
}

impl Stage {
    /// Returns the language's name for the class of an error.
    fn class(&self, name: &str) -> String {
        match self.language {
            crate::interop::programs::Language::Java => format!("Worker${name}"),
            crate::interop::programs::Language::Python => name.to_owned(),
        }
    }
}

impl crate::support::postgres::Pg<false> {
    /// Returns the recorded ids of submissions.
    async fn submitted(&self) -> BTreeSet<JobId> {
        let rows = self.client().await.query("select id from submission", &[]).await.unwrap();
        rows.iter().map(|row| row.get::<_, uuid::Uuid>(0).into()).collect()
    }
}
