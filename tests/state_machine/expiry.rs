//! The one thing that can't be hurried: a lease that runs out.

use std::time::Duration;

use jobwright::store::NodeInfo;

use crate::player::Player;
use crate::support::jobs::{job, messages, node_info};
use crate::support::oracle::Oracle;
use crate::support::{TestDb, eventually};

/// A node dies without a word; both sides find out by their own clocks, and agree on what is left.
pub(crate) async fn plays<T: TestDb>() {
    let Some(db) = T::create().await else { return };
    let oracle = Oracle::create().await.unwrap();
    let mut player = Player::new(db.jobs(), oracle.jobs()).await;
    let batch = messages([job().max_attempts(1), job().max_attempts(2), job(), job()]);
    let mortal = NodeInfo { lease: Duration::from_secs(1), ..node_info("mortal") };
    for side in &mut player.sides {
        let node = side.jobs.register_node(&mortal).await.unwrap();
        side.nodes.push(node);
        side.jobs.insert(&batch, None).await.unwrap();
        assert_eq!(side.jobs.take(node, 3).await.len(), 3);
        let survivor = side.nodes[0];
        assert_eq!(side.jobs.take(survivor, 1).await.len(), 1);
        eventually(Duration::from_secs(15), async || side.jobs.expire_nodes().await.unwrap().contains(&node)).await;
        assert!(!side.jobs.heartbeat(node).await.unwrap());
        assert!(side.jobs.heartbeat(survivor).await.unwrap());
    }
    player.compare().await.unwrap();
    for side in &player.sides {
        assert_eq!(side.jobs.release_all_lost().await, (2, 1));
    }
    player.compare().await.unwrap();
}
