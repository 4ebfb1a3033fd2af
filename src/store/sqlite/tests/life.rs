use std::time::Duration;

use super::{Sqlite, TempFile, claim, job, message, node, operate};
use crate::job::Fence;
use crate::job::{ClaimNumber, JobId, JobMessage, Payload};
use crate::store::{
    Action, ClaimRequest, Claims, Enqueue, JobFilter, JobState, Maintenance, NodeInfo, Nodes, Operator,
    OperatorOptions, Outcomes, Page, Preclaim, ScanCursor, ScanRange, Settlement, Store, UnitOfWork, Verdict,
};
use crate::{ErrorKind, NewJob, NodeId};

#[tokio::test]
async fn jobs_are_claimed_in_order_and_completed_once() {
    let temp = TempFile::new();
    let store = temp.patient().await;
    let owner = node(&store).await;
    let bytes = NewJob::new("other", Payload::bytes("image/png", vec![0, 255])).header("a", "b").priority(-5);
    let sent = [message(job()), message(job().priority(9)), message(bytes)];
    assert_eq!(store.insert(&sent, None).await.unwrap().rows, 3);

    let kinds = ["kind".to_owned()];
    let request = ClaimRequest { kinds: Some(&kinds), ..claim(owner, 10) };
    let jobs = store.claim(&request).await.unwrap().jobs;
    assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [sent[1].id, sent[0].id]);
    assert_eq!((jobs[0].version, jobs[0].attempt, jobs[0].priority), (1, 1, 9));
    let after = [ScanCursor { rank: 5, seq: jobs[1].seq + 2 }];
    assert!(
        store
            .claim(&ClaimRequest { range: ScanRange::after(&after), ..claim(owner, 10) })
            .await
            .unwrap()
            .jobs
            .is_empty()
    );
    assert_eq!(store.claim(&claim(NodeId(99), 10)).await.unwrap_err().kind(), ErrorKind::LeaseLost);
    let last = store.claim(&claim(owner, 10)).await.unwrap().jobs.remove(0);
    assert_eq!((&last.payload, &last.headers), (&sent[2].payload, &sent[2].headers));

    let mut fences: Vec<Fence> = jobs.iter().map(crate::Job::fence).collect();
    fences[0].version += 1;
    assert_eq!(store.complete(owner, &fences).await.unwrap(), [sent[0].id]);
    assert!(store.complete(owner, &fences).await.unwrap().is_empty());
    assert!(store.complete(NodeId(99), &[last.fence()]).await.unwrap().is_empty());

    let mut tx = store.begin().await.unwrap();
    assert!(!tx.remove(owner, fences[0]).await.unwrap());
    assert!(tx.remove(owner, last.fence()).await.unwrap());
    tx.commit().await.unwrap();
    assert!(store.show(last.id).await.unwrap().is_none());
}

/// Settles seven jobs, each with another verdict.
async fn settled(store: &Sqlite, owner: NodeId) -> Vec<JobMessage> {
    let sent: Vec<_> = (0..7).map(|n| message(job().max_attempts(if n == 6 { 1 } else { 2 }))).collect();
    store.insert(&sent, None).await.unwrap();
    let jobs = store.claim(&claim(owner, 10)).await.unwrap().jobs;
    let verdicts = [
        Verdict::Retry(Duration::MAX),
        Verdict::Snooze(Duration::from_secs(60)),
        Verdict::Release,
        Verdict::Cancel,
        Verdict::Dead,
        Verdict::Retry(Duration::ZERO),
        Verdict::Retry(Duration::ZERO),
    ];
    let settlements: Vec<_> = jobs
        .iter()
        .zip(verdicts)
        .enumerate()
        .map(|(n, (job, verdict))| {
            let settlement = Settlement::new(job.fence(), verdict);
            if n == 4 || n == 0 { settlement.error("went wrong", Some("details")) } else { settlement }
        })
        .collect();
    assert_eq!(store.settle(owner, &settlements).await.unwrap().len(), 7);
    assert!(store.settle(owner, &settlements).await.unwrap().is_empty());
    sent
}

#[tokio::test]
async fn every_verdict_does_what_it_says() {
    let temp = TempFile::new();
    let store = temp.patient().await;
    let owner = node(&store).await;
    let sent = settled(&store, owner).await;

    let mut seen = Vec::new();
    for message in &sent {
        seen.push(store.show(message.id).await.unwrap().map(|detail| (detail.summary.state, detail.summary.attempt)));
    }
    let timer = JobState::Timer;
    let dead = JobState::Dead;
    assert_eq!(
        seen,
        [
            Some((timer, 1)),
            Some((timer, 0)),
            Some((JobState::Waiting, 0)),
            None,
            Some((dead, 1)),
            Some((timer, 1)),
            Some((dead, 1))
        ]
    );
    let detail = store.show(sent[4].id).await.unwrap().unwrap();
    assert_eq!(detail.dead.unwrap().1, "went wrong");
    assert_eq!((detail.errors[0].attempt, detail.errors[0].node), (1, owner.0));
    assert_eq!(detail.errors[0].detail.as_deref(), Some("details"));
    assert_eq!(detail.summary.last_error.as_deref(), Some("went wrong"));
    assert_eq!(store.show(sent[6].id).await.unwrap().unwrap().dead.unwrap().1, "attempts exhausted");
}

#[tokio::test]
async fn what_was_settled_can_be_operated_on() {
    let temp = TempFile::new();
    let store = temp.patient().await;
    let owner = node(&store).await;
    let sent = settled(&store, owner).await;
    let promoted = store.promote_due(10).await.unwrap();
    assert_eq!((promoted.jobs, promoted.queues), (1, vec!["default".to_owned()]));
    assert!(promoted.next.unwrap() > Duration::from_secs(50));
    let again = store.claim(&claim(owner, 10)).await.unwrap().jobs;
    assert_eq!(again.iter().map(|job| job.attempt).collect::<Vec<_>>(), [1, 2]);

    let all = JobFilter::default();
    let retry = Action::Retry { limit: None, spread: Duration::ZERO };
    let dry_run = OperatorOptions::DRY_RUN;
    let dry = store.operate(&all, &retry, dry_run).await.unwrap();
    assert_eq!(dry.0, [(JobState::Timer, 2), (JobState::Dead, 2)].into());
    assert_eq!(operate(&store, &all, retry).await.unwrap(), dry);
    let retried = store.show(sent[4].id).await.unwrap().unwrap();
    assert_eq!((retried.summary.state, retried.summary.attempt, retried.errors.len()), (JobState::Waiting, 0, 1));
    assert_eq!(operate(&store, &all, Action::Delete).await.unwrap().0, [(JobState::Waiting, 4)].into());
    assert_eq!(operate(&store, &JobFilter::state(JobState::Running), Action::Cancel).await.unwrap().total(), 2);
    assert!(store.complete(owner, &[again[0].fence()]).await.unwrap().is_empty());
}

async fn last_error(store: &Sqlite, id: JobId) -> String {
    let detail = store.show(id).await.unwrap().unwrap();
    detail.summary.last_error.unwrap()
}

#[tokio::test]
async fn what_dead_nodes_leave_is_released() {
    let temp = TempFile::new();
    let store = temp.patient().await;
    let info = NodeInfo::new("short", "here", 1, Duration::from_secs(1));
    let short = store.register_node(&info).await.unwrap();
    let retired = node(&store).await;
    let owned = |node, messages: &[JobMessage]| Preclaim {
        node,
        claim: ClaimNumber::new(0),
        ids: messages.iter().map(|message| message.id).collect(),
    };
    let sent = [message(job()), message(job().max_attempts(1))];
    assert_eq!(store.insert(&sent, Some(&owned(short, &sent))).await.unwrap().owned.len(), 2);
    let third = message(job());
    let third = [third];
    let taken = store.insert(&third, Some(&owned(retired, &third))).await.unwrap().owned.remove(0);
    let [third] = third;
    assert_eq!(store.retire_node(retired).await.unwrap(), 1);
    let later = [message(job().delay(Duration::from_secs(9)))];
    assert!(store.insert(&later, Some(&owned(retired, &later))).await.unwrap().owned.is_empty());
    assert!(!store.heartbeat(retired).await.unwrap());

    let node_heartbeats = store.node_heartbeats().await.unwrap();
    assert_eq!(store.declare_dead(&node_heartbeats).await.unwrap(), [short]);
    let nodes = store.status().await.unwrap().nodes;
    assert_eq!(nodes.iter().filter(|node| node.dead).count(), 1);
    let first = store.release_lost(2, None).await.unwrap();
    assert_eq!((first.waiting, first.dead), (1, 1));
    assert_eq!(store.release_lost(2, None).await.unwrap().total(), 0);
    assert!(store.status().await.unwrap().nodes.is_empty());

    assert_eq!(
        last_error(&store, sent[0].id).await,
        format!("owner lost: node {short} (short) did not renew its lease")
    );
    let given_back = store.show(third.id).await.unwrap().unwrap();
    assert_eq!(
        (given_back.summary.state, given_back.summary.attempt, given_back.errors.len()),
        (JobState::Waiting, 0, 0)
    );
    assert_eq!(store.show(sent[1].id).await.unwrap().unwrap().dead.unwrap().1, "owner lost");
    // The old owner's fence is no longer accepted.
    assert!(store.complete(retired, &[Fence::new(taken.id, 1)]).await.unwrap().is_empty());
}

#[tokio::test]
async fn long_lists_of_ids_work() {
    let temp = TempFile::new();
    let store = temp.patient().await;
    let sent: Vec<_> = (0..50_000).map(|n| message(job().delay(Duration::from_secs(n % 2 * 60)))).collect();
    store.insert(&sent, None).await.unwrap();
    let filter = JobFilter { queue: Some("default".into()), ..JobFilter::ids(sent.iter().map(|message| message.id)) };
    let page = store.list(&filter, &Page { limit: 3, after: Some(10) }).await.unwrap();
    assert_eq!(
        page.iter().map(|job| (job.seq, job.state)).collect::<Vec<_>>(),
        [(11, JobState::Waiting), (12, JobState::Timer), (13, JobState::Waiting)]
    );
    let gone = operate(&store, &filter, Action::Cancel).await.unwrap();
    assert_eq!(gone.0, [(JobState::Waiting, 25_000), (JobState::Timer, 25_000)].into());
}
