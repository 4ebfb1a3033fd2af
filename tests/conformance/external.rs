//! Jobs handed out to external workers with a lease, fenced by version.

use std::time::Duration;

use jobwright::Store;
use jobwright::admin::{JobFilter, JobState};
use jobwright::headers::REPLY_QUEUE;
use jobwright::internal::Fence;
use jobwright::internal::engine::{Completed, Extension, ExternalDone, Settlement, Verdict};
use jobwright::{Job, JobId, NewJob, NodeId, Payload};
use serde_json::json;
use tokio::task::JoinSet;

use crate::support::jobs::{LATER, fences, hand_out_number, ids, job, jobs, message, set, with_version};
use crate::support::{Jobs, TestDb, eventually};

/// A lease that is over when it starts.
const OVER: Duration = Duration::ZERO;

/// Hands out the waiting jobs of `default`.
async fn hand_out(store: &Jobs, limit: usize, lease: Duration) -> Vec<Job> {
    store.hand_out("default", limit, lease, hand_out_number()).await.unwrap()
}

/// Sends a job and hands it out.
async fn handed(store: &Jobs, job: NewJob) -> Job {
    let id = store.send(job).await;
    let out = hand_out(store, 1, LATER).await;
    assert_eq!(ids(&out), [id], "another job was in the way");
    out.into_iter().next().unwrap()
}

fn done(fence: Fence, result: Option<Payload>) -> ExternalDone {
    ExternalDone { fence, result }
}

async fn finish(store: &Jobs, fence: Fence) -> bool {
    !store.complete_external(&[done(fence, None)]).await.unwrap().ids.is_empty()
}

/// Returns the only job left: the reply.
async fn only_reply(store: &Jobs) -> Job {
    let node = store.node().await;
    let mut replies = store.take_from(REPLY_QUEUE, node, 10).await;
    assert_eq!((replies.len(), store.all().await.len()), (1, 1));
    replies.remove(0)
}

pub(crate) async fn handed_out_with_everything<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(job().priority(-3).max_attempts(7).header("tenant", "acme")).await;
    let before = store.detail(id).await;
    let out = hand_out(&store, 10, LATER).await.remove(0);
    assert_eq!((out.id, out.seq, out.created_at), (id, before.summary.seq, before.summary.created_at));
    assert_eq!((out.attempt, out.max_attempts, out.priority), (1, 7, -3));
    assert_eq!((out.kind.as_str(), out.queue.as_str(), out.headers["tenant"].as_str()), ("kind", "default", "acme"));
    assert_eq!(out.payload.decode::<serde_json::Value>().unwrap()["n"], 1);
    let after = store.detail(id).await;
    assert_eq!((after.summary.state, after.summary.owner, after.summary.due_at), (JobState::External, None, None));
    assert_eq!((after.version, after.summary.attempt), (out.version, 1));
    assert_eq!((after.headers, after.payload), (before.headers, before.payload));
    let node = store.node().await;
    assert_eq!(store.take(node, 10).await.len(), 0, "nobody else gets it");
}

pub(crate) async fn the_best_jobs_are_handed_out_up_to_the_limit<T: TestDb>(db: &T) {
    let store = db.jobs();
    let mut sent = store.send_all(jobs(3)).await;
    sent.insert(0, store.send(job().priority(1)).await);
    store.send(job().queue("other")).await;
    assert_eq!(hand_out(&store, 0, LATER).await.len(), 0);
    assert_eq!(ids(&hand_out(&store, 3, LATER).await), sent[..3]);
    assert_eq!(ids(&hand_out(&store, 100, LATER).await), sent[3..]);
}

pub(crate) async fn only_waiting_jobs_are_taken<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.running(job()).await;
    store.send(job().delay(LATER)).await;
    let suspended = store.send(job()).await;
    db.suspend(suspended).await;
    assert_eq!(hand_out(&store, 10, LATER).await.len(), 0);
}

pub(crate) async fn taken_back_at_no_cost<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all(jobs(2)).await;
    let out = hand_out(&store, 2, LATER).await;
    let wrong: Vec<Fence> = fences(&out).iter().map(|fence| with_version(*fence, fence.version + 1)).collect();
    assert_eq!(store.take_back(&wrong).await.unwrap(), 0);
    assert_eq!(store.take_back(&fences(&out)).await.unwrap(), 2);
    assert_eq!(store.take_back(&fences(&out)).await.unwrap(), 0, "once");
    let detail = store.detail(out[0].id).await;
    assert_eq!((detail.summary.state, detail.summary.attempt, detail.version), (JobState::Waiting, 0, out[0].version));
    assert_eq!(detail.summary.seq, out[0].seq, "it keeps its place");
    assert!(!finish(&store, out[0].fence()).await, "it is not out any more");
    let again = hand_out(&store, 1, LATER).await.remove(0);
    assert_eq!((again.id, again.attempt), (out[0].id, 1));
    assert_ne!(again.version, out[0].version);
}

pub(crate) async fn done_is_gone<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = store.send_all(jobs(3)).await;
    let out = hand_out(&store, 3, LATER).await;
    let batch: Vec<ExternalDone> = fences(&out[..2]).into_iter().map(|fence| done(fence, None)).collect();
    assert_eq!(set(store.complete_external(&batch).await.unwrap().ids), set(sent[..2].to_vec()));
    assert_eq!(store.complete_external(&batch).await.unwrap().ids, []);
    assert_eq!(store.complete_external(&[]).await.unwrap(), Completed::default());
    assert_eq!(store.all().await.len(), 1);
}

pub(crate) async fn a_reply_is_left<T: TestDb>(db: &T) {
    let store = db.jobs();
    let out = handed(&store, job().priority(5).header("secret", "x").reply_to("answers", "c-1")).await;
    let result = Payload::json(&json!({ "sum": 42 })).unwrap();
    let completed = store.complete_external(&[done(out.fence(), Some(result))]).await.unwrap();
    assert_eq!((completed.ids, completed.replies, completed.unblocks), (vec![out.id], true, false));
    let reply = only_reply(&store).await;
    assert_ne!(reply.id, out.id);
    assert_eq!((reply.kind.as_str(), reply.priority), ("kind", 0));
    assert_eq!(reply.payload.decode::<serde_json::Value>().unwrap(), json!({ "sum": 42 }));
    let expected =
        [("correlationId", "c-1".to_owned()), ("jobId", out.id.to_string()), ("replyTo", "answers".to_owned())];
    assert_eq!(reply.headers, expected.map(|(name, value)| (name.to_owned(), value)).into());
}

pub(crate) async fn a_reply_without_a_result<T: TestDb>(db: &T) {
    let store = db.jobs();
    let out = handed(&store, job().header("replyTo", "answers")).await;
    assert!(finish(&store, out.fence()).await);
    let reply = only_reply(&store).await;
    assert_eq!((reply.payload.as_str(), reply.payload.content_type()), (Some("null"), "application/json"));
    assert_eq!(reply.headers.keys().map(String::as_str).collect::<Vec<_>>(), ["jobId", "replyTo"]);
}

pub(crate) async fn a_reply_of_bytes<T: TestDb>(db: &T) {
    let store = db.jobs();
    let first = handed(&store, job().reply_to("a", "1")).await;
    let out = handed(&store, job().reply_to("b", "2")).await;
    let result = Payload::bytes("image/png", vec![0, 255, 7]);
    let batch = [done(with_version(first.fence(), 9), None), done(out.fence(), Some(result.clone()))];
    assert_eq!(store.complete_external(&batch).await.unwrap().ids, [out.id]);
    let node = store.node().await;
    let replies = store.take_from(REPLY_QUEUE, node, 10).await;
    assert_eq!(replies.len(), 1, "no reply for a report that was refused");
    assert_eq!((&replies[0].payload, replies[0].headers["replyTo"].as_str()), (&result, "b"));
}

pub(crate) async fn without_a_reply_address_no_reply_is_sent<T: TestDb>(db: &T) {
    let store = db.jobs();
    let out = handed(&store, job().header("correlationId", "alone")).await;
    let result = Payload::json(&1).unwrap();
    let completed = store.complete_external(&[done(out.fence(), Some(result))]).await.unwrap();
    assert_eq!(completed, Completed { ids: vec![out.id], replies: false, unblocks: false });
    assert_eq!(store.all().await.len(), 0);
}

pub(crate) async fn only_the_current_hand_out_counts<T: TestDb>(db: &T) {
    let store = db.jobs();
    let first = handed(&store, job()).await.fence();
    store.take_back(&[first]).await.unwrap();
    let second = hand_out(&store, 1, LATER).await.remove(0).fence();
    let longer = |fence| Extension { fence, lease: Some(LATER) };
    assert!(!finish(&store, first).await);
    assert_eq!(store.settle_external(&[Settlement::new(first, Verdict::Cancel)]).await.unwrap(), []);
    assert_eq!(store.extend_external(&[longer(first)]).await.unwrap(), []);
    let node = store.node().await;
    assert_eq!(store.complete(node, &[second]).await.unwrap(), [], "no node owns it");
    assert_eq!(store.complete(NodeId(0), &[second]).await.unwrap(), []);
    assert!(!store.settle_one(NodeId(0), second, Verdict::Cancel).await);
    // Old and current reports in one batch are judged separately.
    assert_eq!(store.extend_external(&[longer(first), longer(second)]).await.unwrap(), [second.id]);
    let both = [Settlement::new(first, Verdict::Dead), Settlement::new(second, Verdict::Snooze(LATER))];
    assert_eq!(store.settle_external(&both).await.unwrap(), [second.id]);
    assert_eq!(store.state(second.id).await, Some(JobState::Timer));
    let out = handed(&store, job()).await.fence();
    let old = with_version(out, 0);
    let completed = store.complete_external(&[done(old, None), done(out, None), done(out, None)]).await.unwrap();
    assert_eq!(completed.ids, [out.id]);
}

pub(crate) async fn each_verdict<T: TestDb>(db: &T) {
    let store = db.jobs();
    let verdicts = [
        (Verdict::Retry(LATER), Some(JobState::Timer), 1),
        (Verdict::Snooze(LATER), Some(JobState::Timer), 0),
        (Verdict::Dead, Some(JobState::Dead), 1),
        (Verdict::Cancel, None, 0),
        (Verdict::Release, Some(JobState::Waiting), 0),
    ];
    let sent = store.send_all(jobs(verdicts.len()).into_iter().map(|job| job.header("a", "b").priority(2))).await;
    let out = hand_out(&store, 10, LATER).await;
    let batch: Vec<Settlement> = out
        .iter()
        .zip(&verdicts)
        .map(|(job, (verdict, ..))| Settlement::new(job.fence(), verdict.clone()).error("why", Some("detail")))
        .collect();
    assert_eq!(set(store.settle_external(&batch).await.unwrap()), set(sent.clone()));
    assert_eq!(store.settle_external(&batch).await.unwrap(), []);
    for (job, (_, state, attempt)) in out.iter().zip(verdicts) {
        assert_eq!(store.state(job.id).await, state);
        if state.is_some() {
            let detail = store.detail(job.id).await;
            assert_eq!((detail.summary.attempt, detail.version, detail.summary.seq), (attempt, job.version, job.seq));
            assert_eq!((detail.errors.len(), detail.headers["a"].as_str(), detail.summary.priority), (1, "b", 2));
            assert_eq!(detail.summary.due_at.is_some(), state == Some(JobState::Timer));
        }
    }
}

pub(crate) async fn an_error_names_no_node<T: TestDb>(db: &T) {
    let store = db.jobs();
    let out = handed(&store, job()).await;
    let failed = Settlement::new(out.fence(), Verdict::Retry(LATER)).error("no ink", Some("tray 2"));
    store.settle_external(&[failed]).await.unwrap();
    let error = store.detail(out.id).await.errors.remove(0);
    assert_eq!((error.attempt, error.node, error.error.as_str()), (1, 0, "no ink"));
    assert_eq!(error.detail.as_deref(), Some("tray 2"));
}

pub(crate) async fn attempts_run_out<T: TestDb>(db: &T) {
    let store = db.jobs();
    let out = handed(&store, job().max_attempts(1)).await;
    let failed = Settlement::new(out.fence(), Verdict::Retry(LATER)).error("no ink", None);
    store.settle_external(&[failed]).await.unwrap();
    let detail = store.detail(out.id).await;
    assert_eq!((detail.summary.state, detail.dead.unwrap().1.as_str()), (JobState::Dead, "no ink"));
}

pub(crate) async fn a_lease_that_runs_out_costs_the_attempt<T: TestDb>(db: &T) {
    let store = db.jobs();
    let patient = handed(&store, job()).await;
    let id = store.send(job()).await;
    let out = hand_out(&store, 1, Duration::from_millis(100)).await.remove(0);
    let mut released = store.expire_external(10).await.unwrap();
    eventually(Duration::from_secs(10), async || {
        if released.total() == 0 {
            released = store.expire_external(10).await.unwrap();
        }
        released.total() > 0
    })
    .await;
    assert_eq!((released.waiting, released.dead), (1, 0));
    let detail = store.detail(id).await;
    assert_eq!((detail.summary.state, detail.summary.attempt, detail.version), (JobState::Waiting, 1, out.version));
    assert_eq!((detail.errors.len(), detail.errors[0].node, detail.errors[0].attempt), (1, 0, 1));
    assert!(detail.errors[0].error.contains("did not answer in time"), "{}", detail.errors[0].error);
    assert!(!finish(&store, out.fence()).await, "too late");
    assert!(finish(&store, patient.fence()).await, "its lease is not over");
    assert_eq!(hand_out(&store, 1, LATER).await[0].attempt, 2);
}

pub(crate) async fn the_last_lease_ends_as_a_dead_letter<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = store.send(job().max_attempts(1)).await;
    hand_out(&store, 1, OVER).await;
    eventually(Duration::from_secs(10), async || store.expire_external(10).await.unwrap().dead == 1).await;
    let detail = store.detail(id).await;
    assert_eq!((detail.summary.state, detail.dead.unwrap().1.as_str()), (JobState::Dead, "lease expired"));
    assert_eq!(detail.errors.len(), 1);
}

pub(crate) async fn leases_run_out_in_batches<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all(jobs(7)).await;
    hand_out(&store, 7, OVER).await;
    let mut sizes = Vec::new();
    eventually(Duration::from_secs(10), async || {
        sizes.push(store.expire_external(3).await.unwrap().total());
        sizes.iter().sum::<u64>() == 7
    })
    .await;
    assert!(sizes.iter().all(|size| *size <= 3), "{sizes:?}");
    assert_eq!(store.count(JobState::Waiting).await, 7);
}

pub(crate) async fn an_extended_lease_holds<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send_all(jobs(2)).await;
    let out = hand_out(&store, 2, OVER).await;
    let longer = Extension { fence: out[0].fence(), lease: Some(LATER) };
    assert_eq!(store.extend_external(&[longer]).await.unwrap(), [out[0].id], "late, but nobody took it away");
    eventually(Duration::from_secs(10), async || store.expire_external(10).await.unwrap().total() == 1).await;
    assert_eq!(store.state(out[0].id).await, Some(JobState::External));
    // A shorter lease is an extension too: it counts from now.
    let shorter = Extension { lease: Some(OVER), ..longer };
    assert_eq!(store.extend_external(&[shorter]).await.unwrap(), [out[0].id]);
    eventually(Duration::from_secs(10), async || store.expire_external(10).await.unwrap().total() == 1).await;
    assert_eq!(store.extend_external(&[longer]).await.unwrap(), []);
    assert_eq!(store.extend_external(&[]).await.unwrap(), []);
}

/// Its report is judged by the policies of the job, its kind and its queue. What is asked needs no right on the jobs of other states.
pub(crate) async fn a_report_is_judged_by_the_job_that_was_handed_out<T: TestDb>(db: &T) {
    let store = db.jobs();
    let out = handed(&store, job().priority(-3).max_attempts(7).header("tenant", "acme")).await;
    let (shown, asked) = (store.detail(out.id).await, store.handed_out(out.fence()).await.unwrap().unwrap());
    assert_eq!(format!("{asked:?}"), format!("{shown:?}"));
    assert!(store.handed_out(Fence::new(out.id, out.version + 1)).await.unwrap().is_none());
    assert!(finish(&store, out.fence()).await);
    assert!(store.handed_out(out.fence()).await.unwrap().is_none());
    let (_, running) = store.running(job()).await;
    assert!(store.handed_out(running.fence()).await.unwrap().is_none(), "a node has it");
}

pub(crate) async fn an_extension_without_a_length<T: TestDb>(db: &T) {
    let store = db.jobs();
    let out = handed(&store, job()).await;
    let extension = |lease| Extension { fence: out.fence(), lease };
    // The lease has run out, and becomes as long again as it was.
    assert_eq!(store.extend_external(&[extension(Some(OVER)), extension(None)]).await.unwrap().last(), Some(&out.id));
    assert_eq!(store.expire_external(10).await.unwrap().total(), 0);
    assert!(finish(&store, out.fence()).await);
}

/// An external worker may request anything; it must not fail the batch it is in.
pub(crate) async fn a_very_long_lease<T: TestDb>(db: &T) {
    let store = db.jobs();
    let out = handed(&store, job()).await;
    let century = Duration::from_secs(100 * 366 * 24 * 3600);
    let longer = Extension { fence: out.fence(), lease: Some(century) };
    assert_eq!(store.extend_external(&[longer]).await.unwrap(), [out.id]);
    assert!(finish(&store, out.fence()).await);
}

pub(crate) async fn cancel_refuses_the_report<T: TestDb>(db: &T) {
    let store = db.jobs();
    let out = handed(&store, job().reply_to("a", "1")).await;
    assert_eq!(
        store.delete(&JobFilter::ids([out.id]), false).await.unwrap().total(),
        0,
        "left alone like a running one"
    );
    assert_eq!(store.retry(&JobFilter::ids([out.id]), false).await.unwrap().total(), 0);
    assert_eq!(store.cancel(&JobFilter::state(JobState::External), false).await.unwrap().total(), 1);
    assert!(!finish(&store, out.fence()).await);
    assert_eq!(store.all().await.len(), 0, "no reply either");
}

pub(crate) async fn its_id_is_taken<T: TestDb>(db: &T) {
    let store = db.jobs();
    let id = JobId::new();
    handed(&store, job().id(id)).await;
    assert_eq!(store.insert(&[message(job().id(id))], None).await.unwrap().rows, 0);
    let delayed = message(job().id(id).delay(LATER));
    assert_eq!(store.insert(&[delayed], None).await.unwrap().rows, 0);
    assert_eq!(store.all().await.len(), 1);
}

pub(crate) async fn takers_share_without_overlap<T: TestDb>(db: &T) {
    let handles = [db.jobs(), Jobs(db.reopen().await.engine())];
    let sent = handles[0].send_all(jobs(200)).await;
    let mut tasks = JoinSet::new();
    for n in 0..4 {
        let store = handles[n % 2].clone();
        tasks.spawn(async move {
            let mut all = Vec::new();
            while store.count(JobState::Waiting).await > 0 {
                all.extend(ids(&hand_out(&store, 7, LATER).await));
            }
            all
        });
    }
    let out = tasks.join_all().await.concat();
    assert_eq!((out.len(), set(out)), (200, set(sent)));
}
