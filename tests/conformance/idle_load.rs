//! What is asked of a server while there is nothing to do.

use std::collections::BTreeSet;
use std::time::Duration;

use jobwright::NewJob;
use jobwright::admin::{Rule, Scope, ShareBy};
use jobwright::internal::engine::{MaintenanceDue, MaintenanceRequest};

use crate::conformance::maintenance::{SOON, due, hand_out};
use crate::conformance::schedules::daily;
use crate::support::jobs::{job, node_info};
use crate::support::postgres::Pg;
use crate::support::{TestDb, eventually};

const HOUR: Duration = Duration::from_secs(3600);

/// When nothing is due soon, an idle node makes no other requests.
pub(crate) async fn distant_maintenance_is_not_reported_as_due<T: TestDb>(db: &T) {
    let store = db.jobs();
    let nothing = MaintenanceDue {
        timers: false,
        expiry: false,
        admission: false,
        schedules: false,
        external: false,
        suspects: false,
        reconciliation: false,
        queues: Some(Vec::new()),
        rules: Some(0),
        heartbeats: None,
        now: None,
    };
    assert_eq!(due(&store).await, nothing);
    store.send(job()).await;
    store.send(job().delay(HOUR)).await;
    store.send(job().ttl(HOUR)).await;
    store.send(job().delay(HOUR).ttl(2 * HOUR)).await;
    daily(&store, "daily", |new| new).await;
    hand_out(&store, HOUR).await;
    assert_eq!(due(&store).await, nothing);

    store.send(job().delay(SOON)).await;
    assert_eq!(due(&store).await, MaintenanceDue { timers: true, ..nothing.clone() });
    store.send(job().ttl(SOON)).await;
    assert_eq!(due(&store).await, MaintenanceDue { timers: true, expiry: true, ..nothing.clone() });
    // The second job of a group is blocked on the key.
    store.send(job().exclusive("g")).await;
    assert_eq!(
        due(&store).await,
        MaintenanceDue { timers: true, expiry: true, admission: true, reconciliation: true, ..nothing }
    );
}

/// A poll names the queues in which a job may start now: the tasks of the others make no request.
pub(crate) async fn a_poll_names_the_queues_in_which_jobs_may_start<T: TestDb>(db: &T) {
    let store = db.jobs();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let own = words(&["empty", "other", "paused", "blocked", "expired", "late", "limited", "ready", "many"]);
    let (kinds, outbound) = (words(&["kind"]), words(&["out", "silent"]));
    let request = MaintenanceRequest { queues: &own, kinds: &kinds, outbound: &outbound, ..Default::default() };
    let named = async || {
        let due = store.maintenance_due(&request).await.unwrap();
        (due.queues.unwrap_or_default().into_iter().collect::<BTreeSet<_>>(), due.admission)
    };
    assert_eq!(named().await, (BTreeSet::new(), false));

    for (queue, kind) in
        [("other", "unknown"), ("paused", "kind"), ("ready", "kind"), ("limited", "kind"), ("out", "x")]
    {
        store.send(NewJob::json(kind, &1).queue(queue)).await;
    }
    store.put_rule(&Rule::new(Scope::Queue, "paused").paused(true)).await.unwrap();
    store.put_rule(&Rule::new(Scope::Queue, "limited").running(1)).await.unwrap();
    store.admit_all().await;
    store.send(NewJob::json("kind", &1).queue("late").delay(HOUR)).await;
    store.send(NewJob::json("kind", &1).queue("expired").ttl(Duration::from_millis(1))).await;
    store.send(NewJob::json("kind", &1).queue("blocked").exclusive("g")).await;
    // If none of the first ones may start, those behind them may.
    store.send_all((0..100).map(|n| NewJob::json("unknown", &n).queue("many"))).await;
    let expected: BTreeSet<String> = words(&["ready", "limited", "many", "out"]).into_iter().collect();
    // The unblock of the group is due.
    eventually(SOON, async || named().await == (expected.clone(), true)).await;
    while store.admit_once().await.jobs > 0 {}
    let with_group: BTreeSet<String> = expected.into_iter().chain(["blocked".to_owned()]).collect();
    assert_eq!(named().await, (with_group.clone(), false));
    // A pause of all queues, and its end.
    store.put_rule(&Rule::new(Scope::Queue, "*").paused(true)).await.unwrap();
    assert!(named().await.0.is_subset(&BTreeSet::from(["out".to_owned()])));
    store.put_rule(&Rule::new(Scope::Queue, "*").paused(false)).await.unwrap();
    assert_eq!(named().await.0, with_group);
    // A limit that claims can't count: each waiting row under it needs a pass.
    store.put_rule(&Rule::new(Scope::Queue, "ready").running(5).shares(ShareBy::Tenant, [])).await.unwrap();
    assert!(named().await.1);
}

/// Rows that are hidden for a delivery are named where a claim takes them all the same: under a limit that it counts, and those that are sent.
pub(crate) async fn a_poll_names_hidden_rows_that_claims_take<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let (own, kinds, outbound) = (words(&["default"]), words(&["kind"]), words(&["out"]));
    let request = MaintenanceRequest { queues: &own, kinds: &kinds, outbound: &outbound, ..Default::default() };
    let named = async || store.maintenance_due(&request).await.unwrap().queues.unwrap();
    store.send(NewJob::json("kind", &1)).await;
    store.send(NewJob::json("x", &1).queue("out")).await;
    db.raw("update {schema}.job set visible_at = now() + interval '100 seconds'").await;
    assert_eq!(named().await, ["out"]);
    store.put_rule(&Rule::new(Scope::Queue, "default").running(1)).await.unwrap();
    assert_eq!(
        named().await.into_iter().collect::<BTreeSet<_>>(),
        BTreeSet::from(["default".to_owned(), "out".to_owned()])
    );
}

/// The cost of watching does not grow with the square of the number of nodes.
pub(crate) async fn most_nodes_read_few_heartbeats<const POOLED: bool>(db: &Pg<POOLED>) {
    const NODES: usize = 30;
    let store = db.jobs();
    let mut read = Vec::new();
    let mut nodes = BTreeSet::new();
    for _ in 0..NODES {
        nodes.insert(store.register_node(&node_info("n")).await.unwrap());
    }
    for node in nodes {
        read.push(store.watched_heartbeats(node).await.unwrap().len());
    }
    assert_eq!((read[..8].iter().sum::<usize>(), read[8..].iter().sum::<usize>()), (8 * NODES, 8 * (NODES - 8)));
}
