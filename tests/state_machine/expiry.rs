//! A lease that runs out, the only event that can't be simulated.

use std::time::Duration;

use jobwright::internal::engine::ClaimRequest;

use crate::state_machine::player::Player;
use crate::support::TestDb;
use crate::support::jobs::{claim_number, job, messages, node_info};
use crate::support::oracle::Oracle;

/// A node crashes; both sides find out by their own clocks, and agree on what is left.
pub(crate) async fn plays<T: TestDb>() {
    let Some(db) = T::create().await else { return };
    let oracle = Oracle::create().await.unwrap();
    let mut player = Player::new(db.jobs(), oracle.jobs()).await;
    let batch = messages([job().max_attempts(1), job().max_attempts(2), job(), job()]);
    let mortal = node_info("mortal").lease(Duration::from_secs(1));
    let (lost, kept) = (claim_number(), claim_number());
    for side in &mut player.sides {
        let node = side.jobs.register_node(&mortal).await.unwrap();
        side.nodes.push(node);
        side.jobs.insert(&batch, None).await.unwrap();
        let take = async |node, claim, limit| {
            side.jobs.claim(&ClaimRequest::new(node, claim, "default", limit)).await.unwrap().jobs.len()
        };
        assert_eq!(take(node, lost, 3).await, 3);
        let survivor = side.nodes[0];
        assert_eq!(take(survivor, kept, 1).await, 1);
        side.jobs.declare(node).await;
        assert!(!side.jobs.heartbeat(node).await.unwrap());
        assert!(side.jobs.heartbeat(survivor).await.unwrap());
    }
    player.compare().await.unwrap();
    for side in &player.sides {
        assert_eq!(side.jobs.release_all_lost().await, (2, 1));
    }
    player.compare().await.unwrap();
}
