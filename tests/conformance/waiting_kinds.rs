//! The waiting jobs by kind: what the exporter of metrics asks.

use std::time::Duration;

use jobwright::NewJob;
use jobwright::admin::{Rule, Scope};

use crate::support::SqlDb;
use crate::support::jobs::{LATER, job};

fn of(kind: &str, queue: &str) -> NewJob {
    NewJob::json(kind, &1).queue(queue)
}

/// Only jobs that wait count, and only in the queues that were asked for.
pub(crate) async fn by_queue_and_kind<T: SqlDb>(db: &T) {
    let store = db.jobs();
    assert!(store.waiting_kinds(&["default", "b"]).await.unwrap().kinds.is_empty());
    store.put_rule(&Rule::new(Scope::Tenant, "blocked").running(0)).await.unwrap();
    let sent = [
        of("x", "default"),
        of("x", "default").priority(5),
        of("y", "default"),
        of("x", "b"),
        of("x", "c"),
        of("later", "default").delay(LATER),
        of("blocked", "default").tenant("blocked"),
        of("runs", "default").priority(9),
    ];
    store.send_all(sent).await;
    store.admit_all().await;
    let node = store.node().await;
    assert_eq!(store.take_from("default", node, 1).await[0].kind, "runs");
    let found = store.waiting_kinds(&["b", "default", "empty"]).await.unwrap();
    let kinds: Vec<_> = found.kinds.iter().map(|it| (&*it.queue, &*it.kind, it.waiting)).collect();
    assert_eq!(kinds, [("b", "x", 1), ("default", "x", 2), ("default", "y", 1)]);
    assert!(found.partial.is_empty());
    assert!(found.kinds.iter().all(|it| (0.0..600.0).contains(&it.oldest_waiting_seconds)), "{found:?}");
}

pub(crate) async fn the_oldest_of_a_kind_is_told<T: SqlDb>(db: &T) {
    let store = db.jobs();
    store.send(of("old", "a")).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    // They come first, and are younger.
    store.send_all([of("old", "a").priority(1), of("new", "a").priority(1)]).await;
    let found = store.waiting_kinds(&["a"]).await.unwrap();
    let [new, old] = &found.kinds[..] else { panic!("{found:?}") };
    assert_eq!((&*new.kind, &*old.kind), ("new", "old"));
    assert!(old.oldest_waiting_seconds > new.oldest_waiting_seconds + 0.29, "{found:?}");
}

/// However many jobs wait, no more are read than all queues may have together: with so many queues, one of each.
pub(crate) async fn a_queue_with_more_jobs_than_are_read_is_partial<T: SqlDb>(db: &T) {
    let store = db.jobs();
    store.send_all([of("x", "deep"), job().queue("deep"), of("x", "deep").priority(1)]).await;
    let names: Vec<String> = (0..60_000).map(|n| format!("q{n}")).collect();
    let queues: Vec<&str> = names.iter().map(String::as_str).chain(["deep"]).collect();
    let found = store.waiting_kinds(&queues).await.unwrap();
    assert_eq!(found.kinds.iter().map(|it| it.waiting).sum::<u64>(), 1);
    assert!(found.partial.contains("deep") && found.partial.len() == 1, "{:?}", found.partial);
    assert!(store.waiting_kinds(&["deep"]).await.unwrap().partial.is_empty());
}
