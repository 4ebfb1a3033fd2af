//! Nodes that may not claim.

use jobwright::ErrorKind;
use jobwright::admin::JobState;
use jobwright::internal::Fence;
use jobwright::internal::engine::ClaimRequest;

use crate::support::TestDb;
use crate::support::jobs::{NOBODY, claim_number, job};

/// The claim fails instead of returning nothing: otherwise the node would wait for jobs forever, without a reason given.
pub(crate) async fn a_node_that_may_not_claim_gets_an_error<T: TestDb>(db: &T) {
    let store = db.jobs();
    let sent = store.send(job()).await;
    let dead = store.node().await;
    store.declare(dead).await;
    for node in [dead, NOBODY] {
        let request = ClaimRequest::new(node, claim_number(), "default", 1);
        let told = [
            store.claim(&request).await.unwrap_err(),
            store.claim_delivered(node, claim_number(), &[Fence::new(sent, 0)], None).await.unwrap_err(),
        ];
        for error in told {
            assert_eq!(error.kind(), ErrorKind::LeaseLost, "{error}");
            assert!(!error.is_retryable() && error.to_string().contains(&node.to_string()), "{error}");
        }
    }
    assert_eq!(store.state(sent).await, Some(JobState::Waiting));
}
