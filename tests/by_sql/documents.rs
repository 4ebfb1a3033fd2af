//! The programs of docs/sql-workers.md run, are killed, come too late, and are asked to stop: the same scenarios in each language.

mod programs;

use jobwright::admin::JobState;
use jobwright::{JobId, NewJob};
use serde_json::json;

use self::programs::{JAVA, Language, NODE, PSQL, PYTHON, Running};
use super::Site;
use crate::support::environment::PATIENCE;
use crate::support::eventually;

fn mail(number: usize) -> NewJob {
    NewJob::json("mail", &json!({ "to": format!("a{number}@example.com") })).queue("mail")
}

impl Site {
    /// Sends a mail, and wakes the programs, which look every five seconds by themselves.
    async fn send_mail(&self, mail: NewJob) -> JobId {
        let id = self.jobs.send(mail).await;
        self.wake_mailers().await;
        id
    }

    async fn wake_mailers(&self) {
        self.worker.query_one("select wake('mail')", &[]).await.unwrap();
    }

    async fn sent(&self) -> Vec<String> {
        let rows = self.worker.query("select address from sent_mail order by address", &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    async fn forget_sent(&self) {
        self.worker.batch_execute("truncate sent_mail").await.unwrap();
    }

    /// Returns how many starts there were: of one job, or of all.
    async fn starts(&self, of: Option<JobId>) -> i64 {
        let count = "select count(*) from ledger where job = coalesce($1::text::uuid, job)";
        self.worker.query_one(count, &[&of.map(|id| id.to_string())]).await.unwrap().get(0)
    }

    /// Asserts that no job started while an earlier start of it had its lease.
    async fn nothing_started_twice(&self) {
        let twice =
            "select count(*) from ledger a join ledger b on b.job = a.job and b.n > a.n and b.started < a.lease_until";
        assert_eq!(self.worker.query_one(twice, &[]).await.unwrap().get::<_, i64>(0), 0, "starts within a lease");
    }

    /// Waits until the lease of the only job that is handed out has ended and the job waits again, as an executor makes it.
    async fn lease_ends(&self) {
        eventually(PATIENCE, async || self.jobs.expire_external(9).await.unwrap().waiting == 1).await;
    }
}

/// Waits until a program has ended after it was asked to.
async fn has_stopped(mut program: Running, language: &Language) {
    eventually(PATIENCE, async || program.ended().is_some()).await;
    assert_eq!(program.ended(), Some(language.stopped), "{}", program.said());
}

/// Plays all scenarios with the program of a language.
async fn plays(language: &'static Language) {
    if language.is_left_out() {
        return;
    }
    let Some(site) = Site::create().await else { return };
    let tables = "create table sent_mail (address text not null);
                  create table ledger (n bigserial, job uuid not null, started timestamptz not null default clock_timestamp(),
                                       lease_until timestamptz not null)";
    site.worker.batch_execute(tables).await.unwrap();
    let program = language.program(&site);

    // Two of them share jobs that a library and a statement sent.
    let (first, other) = (program.start(), program.start());
    site.jobs.send_all((0..10).map(mail)).await;
    let by_sql =
        "select send('mail', jsonb_build_object('to', 'b' || n), queue => 'mail') from generate_series(1, 10) n";
    site.worker.query(by_sql, &[]).await.unwrap();
    site.wake_mailers().await;
    eventually(PATIENCE, async || site.jobs.all().await.is_empty()).await;
    assert_eq!((site.sent().await.len(), site.starts(None).await), (20, 20));
    // Each has a name of its own.
    eventually(PATIENCE, async || site.jobs.status().await.unwrap().workers.len() == 2).await;
    other.signal("TERM");
    has_stopped(other, language).await;

    // A job that fails is retried by policy.
    let wrong = site.send_mail(NewJob::json("mail", &json!({})).queue("mail")).await;
    eventually(PATIENCE, async || site.jobs.state(wrong).await == Some(JobState::Timer)).await;
    let errors = site.jobs.detail(wrong).await.errors;
    assert!(errors[0].error.contains(language.complaint), "{errors:?}");
    assert_eq!(site.sent().await.len(), 20);

    // It is killed in the middle of its work, which waits for this lock. Its job runs again after the lease, and not before, although another asks for it.
    site.forget_sent().await;
    let lock = site.db.hold("lock table {schema}.sent_mail in exclusive mode").await;
    let killed = site.send_mail(mail(100)).await;
    eventually(PATIENCE, async || lock.waiting().await == 1).await;
    first.signal("KILL");
    drop(first);
    let second = program.start();
    // The session of the one that was killed does not know yet, and goes on waiting.
    site.lease_ends().await;
    site.wake_mailers().await;
    eventually(PATIENCE, async || site.starts(Some(killed)).await == 2).await;
    lock.release().await;
    eventually(PATIENCE, async || site.jobs.state(killed).await.is_none()).await;
    assert_eq!(site.sent().await, ["a100@example.com"]);

    // It is too late: its lease ends while it is stopped, and another ends the job. Its own work is rolled back.
    let lock = site.db.hold("lock table {schema}.sent_mail in exclusive mode").await;
    let late = site.send_mail(mail(101)).await;
    eventually(PATIENCE, async || lock.waiting().await == 1).await;
    second.signal("STOP");
    site.lease_ends().await;
    lock.release().await;
    let node = site.jobs.node().await;
    let job = site.jobs.take_from("mail", node, 1).await.remove(0);
    assert_eq!((job.id, job.attempt), (late, 2));
    site.jobs.finish(node, &job).await;
    second.signal("CONT");
    eventually(PATIENCE, async || second.said().contains(&format!("{late} was ended elsewhere"))).await;
    assert_eq!((site.sent().await.len(), site.starts(Some(late)).await), (1, 1));

    // It is asked to stop during a job: it ends that one, and takes no other.
    site.forget_sent().await;
    let lock = site.db.hold("lock table {schema}.sent_mail in exclusive mode").await;
    let last = site.send_mail(mail(102)).await;
    eventually(PATIENCE, async || lock.waiting().await == 1).await;
    second.signal("TERM");
    eventually(PATIENCE, async || second.has_noticed(language)).await;
    let left = site.send_mail(mail(103)).await;
    lock.release().await;
    has_stopped(second, language).await;
    assert_eq!(site.sent().await, ["a102@example.com"]);
    assert_eq!((site.jobs.state(last).await, site.jobs.state(left).await), (None, Some(JobState::Waiting)));
    site.nothing_started_twice().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_in_python_commits_each_job_once() {
    plays(&PYTHON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_in_java_commits_each_job_once() {
    plays(&JAVA).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_in_node_commits_each_job_once() {
    plays(&NODE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_in_psql_commits_each_job_once() {
    plays(&PSQL).await;
}
