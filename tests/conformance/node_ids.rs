//! Node ids are drawn by the process that registers; a database counter could lose some of them.

use std::collections::BTreeSet;

use jobwright::NodeId;

use crate::support::TestDb;

pub(crate) async fn ids_of_nodes<T: TestDb>(db: &T) {
    let store = db.jobs();
    let mut drawn = Vec::new();
    for _ in 0..10 {
        let node = store.node().await;
        drawn.push(node.0);
        // The node is forgotten, as after a failover that lost it.
        store.retire_node(node).await.unwrap();
    }
    assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), 10, "{drawn:?}");
    assert!(drawn.iter().all(|id| (1..=i64::from(i32::MAX)).contains(id)), "{drawn:?}");
    // Ten consecutive ids are drawn once in 10^80 runs.
    assert!(drawn.windows(2).any(|two| two[1] != two[0] + 1), "they are counted: {drawn:?}");
    assert!(!store.heartbeat(NodeId(drawn[0])).await.unwrap());
}
