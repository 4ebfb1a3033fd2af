//! Documents that are small as text and large once parsed: how much memory of a server process they take.

use std::time::Duration;

use jobwright::internal::engine::ExternalDone;
use jobwright::internal::{HandOutNumber, Submission};
use jobwright::{JobId, JobMessage, NewJob, Payload};

use crate::support::Jobs;
use crate::support::jobs::{LATER, message};
use crate::support::postgres::Pg;
use crate::support::private_pg::PrivatePg;

/// Parsed all at once, they would take more than a gigabyte: 87 MB each.
const DOCUMENTS: usize = 16;
/// A statement's text, the arrays in it, and one document at a time.
const MOST_KILOBYTES: u64 = 400 * 1024;

/// Returns empty arrays, as many as a payload of a mebibyte holds.
fn document() -> Payload {
    Payload::json_text(format!("[{}1]", "[],".repeat(349_000))).unwrap()
}

fn job(n: usize) -> NewJob {
    // Two kinds, so that the statement of each test is the one it is about.
    NewJob::new(if n.is_multiple_of(2) { "even" } else { "odd" }, document())
}

fn messages(change: impl Fn(NewJob) -> NewJob) -> Vec<JobMessage> {
    (0..DOCUMENTS).map(|n| message(change(job(n)))).collect()
}

/// Returns the peak memory of a process, in kB.
pub(crate) fn peak(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches("kB").trim().parse().unwrap()
}

/// A server used by this test alone, and the peak memory of its processes.
struct Measured {
    db: Pg<false>,
    jobs: Jobs,
    _server: PrivatePg,
}

impl Measured {
    async fn start() -> Self {
        let server = PrivatePg::start();
        let db = Pg::create_on(&server.url()).await;
        // Writing this much takes time on a busy machine.
        let jobs = db.waiting_at_most(Duration::from_secs(60)).await;
        Self { db, jobs, _server: server }
    }

    /// Fails if a process that answered exceeded its limit.
    async fn bounded(&self, stored: usize) {
        let client = self.db.client().await;
        let written: i64 = client.query_one("select count(*) from jobs", &[]).await.unwrap().get(0);
        assert_eq!(usize::try_from(written), Ok(stored));
        let served = "select pid from pg_stat_activity where application_name = $1";
        let served = client.query(served, &[&self.db.schema()]).await.unwrap();
        assert!(!served.is_empty());
        for row in served {
            let pid: i32 = row.get(0);
            let kilobytes = peak(pid);
            assert!(kilobytes < MOST_KILOBYTES, "a process of the server grew to {kilobytes} kB");
        }
    }
}

async fn insert(change: impl Fn(NewJob) -> NewJob) {
    let measured = Measured::start().await;
    let inserted = measured.jobs.insert(&messages(change), None).await.unwrap();
    assert_eq!(inserted.rows, DOCUMENTS as u64);
    measured.bounded(DOCUMENTS).await;
}

#[tokio::test]
async fn documents_of_one_kind_are_read_one_by_one() {
    let measured = Measured::start().await;
    let batch: Vec<JobMessage> = (0..DOCUMENTS).map(|_| message(NewJob::new("kind", document()))).collect();
    measured.jobs.insert(&batch, None).await.unwrap();
    measured.bounded(DOCUMENTS).await;
}

#[tokio::test]
async fn documents_of_several_kinds_are_read_one_by_one() {
    insert(|job| job).await;
}

#[tokio::test]
async fn documents_for_later_are_read_one_by_one() {
    insert(|job| job.delay(LATER)).await;
}

#[tokio::test]
async fn documents_of_groups_are_read_one_by_one() {
    insert(|job| job.exclusive("group")).await;
}

#[tokio::test]
async fn documents_that_were_submitted_are_read_one_by_one() {
    let measured = Measured::start().await;
    let batch: Vec<Submission> = messages(|job| job.id(JobId::new()))
        .into_iter()
        .map(|message| Submission { message, digest: [7; 32] })
        .collect();
    measured.jobs.receive(&batch).await.unwrap();
    measured.bounded(DOCUMENTS).await;
}

#[tokio::test]
async fn results_of_external_workers_are_read_one_by_one() {
    let measured = Measured::start().await;
    let asking = |_| message(NewJob::json("kind", &1).header("replyTo", "them"));
    measured.jobs.insert(&(0..DOCUMENTS).map(asking).collect::<Vec<_>>(), None).await.unwrap();
    let handed = measured.jobs.hand_out("default", DOCUMENTS, LATER, HandOutNumber::new(1)).await.unwrap();
    assert_eq!(handed.len(), DOCUMENTS);
    let done: Vec<ExternalDone> =
        handed.iter().map(|job| ExternalDone { fence: job.fence(), result: Some(document()) }).collect();
    assert_eq!(measured.jobs.complete_external(&done).await.unwrap().ids.len(), DOCUMENTS);
    measured.bounded(DOCUMENTS).await;
}

/// The last part is refused: nothing of the parts before remains.
#[tokio::test]
async fn a_batch_that_is_cut_is_stored_whole_or_not_at_all() {
    let measured = Measured::start().await;
    let mut batch = messages(|job| job);
    batch[DOCUMENTS - 1].id = batch[0].id;
    assert!(measured.jobs.insert(&batch, None).await.is_err());
    measured.bounded(0).await;
}
