//! Depth limits: which queues are full.

use jobwright::admin::{Rule, Scope};
use jobwright::internal::engine::FullQueue;

use crate::support::TestDb;
use crate::support::jobs::{LATER, job, jobs};

/// Waiting and blocked jobs count; running ones and timers do not.
pub(crate) async fn full_is_as_many_waiting_as_allowed<T: TestDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    let full = async || store.full(&["default", "other"]).await.unwrap();
    store.send_all(jobs(5)).await;
    assert_eq!(full().await, [], "without a rule");
    store.put_rule(&Rule::new(Scope::Queue, "default").depth(6)).await.unwrap();
    assert_eq!(full().await, []);
    store.send(job().delay(LATER)).await;
    store.send_all(jobs(9).into_iter().map(|job| job.queue("other"))).await;
    assert_eq!(full().await, []);
    store.send(job().exclusive("g")).await;
    let expected = FullQueue { queue: "default".to_owned(), depth: 6 };
    let expected = [expected];
    assert_eq!(full().await, expected);
    store.send(job()).await;
    assert_eq!(full().await, expected, "the rule is about what senders are told; the engine stores what it is given");
    assert_eq!(store.take(node, 2).await.len(), 2);
    assert_eq!(full().await, []);
}

/// The rule of all queues counts each queue separately, and a queue's own rule takes precedence.
pub(crate) async fn each_queue_by_itself<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.put_rule(&Rule::new(Scope::Queue, "*").depth(1)).await.unwrap();
    store.put_rule(&Rule::new(Scope::Queue, "free").paused(true)).await.unwrap();
    for queue in ["a", "free"] {
        store.send(job().queue(queue)).await;
    }
    let full = store.full(&["a", "b", "free"]).await.unwrap();
    assert_eq!(full, [FullQueue { queue: "a".to_owned(), depth: 1 }]);
    store.put_rule(&Rule::new(Scope::Queue, "*").depth(0)).await.unwrap();
    assert_eq!(store.full(&["b"]).await.unwrap().len(), 1, "nothing may be sent");
    store.put_rule(&Rule::new(Scope::Queue, "*")).await.unwrap();
    assert_eq!(store.full(&["a", "b", "free"]).await.unwrap(), []);
}
