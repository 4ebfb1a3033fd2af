//! The node as the completer needs it, to claim the next jobs of a group.

use std::sync::{Arc, Weak};

use crate::error::Error;
use crate::executor::node::Node;
use crate::executor::node::group_run::{GroupClaimer, GroupRun, NextClaim};
use crate::job::Job;

/// Returns the node as the completer uses it. The reference does not keep the node alive.
pub(crate) fn claimer(node: &Arc<Node>) -> Weak<dyn GroupClaimer> {
    let claimer: Arc<dyn GroupClaimer> = node.clone();
    Arc::downgrade(&claimer)
}

impl GroupClaimer for Node {
    fn begin_claim(&self) -> Option<NextClaim> {
        // The token comes first: a node that stops claiming then waits for the workers.
        let worker = self.workers.token();
        if self.stop_claiming.is_cancelled() || self.breakers.any_open() {
            return None;
        }
        // Not waited for: outcomes are more important.
        let claim = self.in_flight.try_begin_claim_beside()?;
        Some(NextClaim { claim, _worker: worker })
    }

    fn kinds(&self) -> &[String] {
        &self.chainable_kinds
    }

    fn failed(&self, error: &Error) {
        self.claim_failed(error);
    }

    fn start(&self, jobs: Vec<Job>, group_run: GroupRun) {
        if let Some(node) = self.me() {
            self.work.clone().start_group_run(node, jobs, group_run);
        }
    }
}
