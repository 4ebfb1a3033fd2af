//! Live and dead nodes, and what becomes of their jobs.

use std::time::{Duration, Instant};

use jobwright::admin::JobState;
use jobwright::{CommandExecutor, MessageServices, NewJob, Outcome};

use crate::support::environment::{Gate, PATIENCE, World, at_once, quick};
use crate::support::eventually;

/// The shortest possible lease, so that several pass in a test.
const LEASE: Duration = Duration::from_secs(1);

/// Starts an executor of one queue with a lease. Its jobs write a line and then wait at a gate with their transaction open, or wait and then write.
async fn writing<W: World>(
    messages: &MessageServices<W::Store>,
    queue: &str,
    lease: Duration,
    gate: &Gate,
) -> CommandExecutor<W::Store> {
    let (gate, before) = (gate.clone(), gate.clone());
    CommandExecutor::builder(messages.clone())
        .config(quick().lease(lease))
        .queue(queue, 1)
        .kind_options("writes", at_once())
        .handle_with("writes", move |cx| {
            let gate = gate.clone();
            Box::pin(async move {
                let line = cx.job().id.to_string();
                W::note(cx.transaction().await?, &line).await?;
                gate.pass().await;
                Ok(Outcome::Done)
            })
        })
        .handle_with("waits", move |cx| {
            let gate = before.clone();
            Box::pin(async move {
                gate.pass().await;
                let line = cx.job().id.to_string();
                W::note(cx.transaction().await?, &line).await?;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap()
}

/// A handler keeps its transaction open for several leases. On an embedded database nothing else can write meanwhile, and still both nodes and their
/// jobs live.
pub(crate) async fn a_long_transaction_costs_no_node_its_lease<W: World>(db: &W) {
    let (messages, others) = (db.messages().await, db.messages().await);
    let gate = Gate::closed();
    let long = writing::<W>(&messages, "long", LEASE, &gate).await;
    let other = writing::<W>(&others, "other", LEASE, &gate).await;
    let sent = messages.send(NewJob::json("writes", &()).queue("long").max_attempts(1)).await.unwrap();
    gate.waiting(1).await;
    let begun = Instant::now();
    let jobs = db.jobs();
    eventually(PATIENCE, async || {
        let nodes = jobs.status().await.unwrap().nodes;
        assert!(nodes.len() == 2 && nodes.iter().all(|node| !node.dead), "{nodes:?}");
        begun.elapsed() > LEASE * 5
    })
    .await;
    gate.open();
    db.drained().await;
    db.each_once(&[sent]).await;
    assert_eq!((long.stats().leases_lost, other.stats().leases_lost), (0, 0));
    assert_eq!(long.stats().refused, 0);
    long.shutdown(Duration::from_secs(5)).await.unwrap();
    other.shutdown(Duration::from_secs(5)).await.unwrap();
}

/// A clock that is set forward makes every lease look over. No node is declared dead for it.
pub(crate) async fn a_clock_change_kills_no_node<W: World>(db: &W) {
    let (messages, others) = (db.messages().await, db.messages().await);
    let gate = Gate::closed();
    // It has just sent a heartbeat, and need not send another during the test.
    let calm = writing::<W>(&messages, "default", Duration::from_secs(300), &gate).await;
    let sent = messages.send(NewJob::json("waits", &())).await.unwrap();
    gate.waiting(1).await;
    let node = db.jobs().status().await.unwrap().nodes[0].id;
    db.end_lease(node).await;
    // One that checks every third of a second.
    let monitor = writing::<W>(&others, "other", LEASE, &gate).await;
    let begun = Instant::now();
    eventually(PATIENCE, async || {
        assert_eq!(db.jobs().state(sent).await, Some(JobState::Running));
        begun.elapsed() > LEASE * 3
    })
    .await;
    gate.open();
    db.drained().await;
    db.each_once(&[sent]).await;
    assert_eq!((calm.stats().leases_lost, calm.stats().refused), (0, 0));
    calm.shutdown(Duration::from_secs(5)).await.unwrap();
    monitor.shutdown(Duration::from_secs(5)).await.unwrap();
}

/// The database forgets a node, as after a failover or a restore: the first claim for it reports that, long before the next heartbeat would, and the
/// executor registers again.
pub(crate) async fn a_forgotten_node_hears_of_it_when_it_claims<W: World>(db: &W) {
    let messages = db.messages().await;
    let gate = Gate::closed();
    gate.open();
    let executor = writing::<W>(&messages, "default", Duration::from_secs(300), &gate).await;
    let jobs = db.jobs();
    let node = jobs.status().await.unwrap().nodes[0].id;
    jobs.retire_node(node).await.unwrap();
    let sent = db.messages().await.send(NewJob::json("writes", &())).await.unwrap();
    db.drained().await;
    db.each_once(&[sent]).await;
    assert_eq!(executor.stats().leases_lost, 1);
    let nodes = jobs.status().await.unwrap().nodes;
    assert!(nodes.len() == 1 && nodes[0].id != node, "{nodes:?}");
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
}
