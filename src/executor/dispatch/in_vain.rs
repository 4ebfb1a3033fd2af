//! Since when suspects wait in vain.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::job::JobId;

/// How long suspects may wait in vain.
const IN_VAIN: Duration = Duration::from_secs(600);

/// Since when this node has tried to run suspects that still wait, while no node ran any of them.
#[derive(Debug, Default)]
pub(super) struct InVain(HashMap<JobId, Instant>);

impl InVain {
    /// Learns which suspects wait now. If one does no more, some node runs it, and the others have their turn after it: a busy node must not
    /// acquit suspects that other nodes work through.
    pub(super) fn look(&mut self, waiting: impl Iterator<Item = JobId>) {
        let mut missing = self.0.len();
        for id in waiting {
            missing -= usize::from(self.0.contains_key(&id));
        }
        if missing > 0 {
            self.clear();
        }
    }

    /// Notes that one could not be run now.
    pub(super) fn add(&mut self, id: JobId, now: Instant) {
        self.0.entry(id).or_insert(now);
    }

    /// Forgets those that are suspects no more.
    pub(super) fn remove(&mut self, ids: &[JobId]) {
        self.0.retain(|id, _| !ids.contains(id));
    }

    /// Notes that one ran.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns those that have waited for too long.
    pub(super) fn too_long(&self, now: Instant) -> Vec<JobId> {
        let over = self.0.iter().filter(|(_, since)| now.duration_since(**since) >= IN_VAIN);
        over.map(|(id, _)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspects_that_other_nodes_work_through_do_not_wait_in_vain() {
        let (first, second, began) = (JobId::new(), JobId::new(), Instant::now());
        let late = began + IN_VAIN;
        let mut in_vain = InVain::default();
        for id in [first, second] {
            in_vain.add(id, began);
        }
        in_vain.look([first, second, JobId::new()].into_iter());
        in_vain.add(first, late);
        let mut over = in_vain.too_long(late);
        over.sort_unstable();
        let mut all = vec![first, second];
        all.sort_unstable();
        assert_eq!(over, all, "nothing happened for as long");
        assert!(in_vain.too_long(late.checked_sub(Duration::from_secs(1)).unwrap()).is_empty());

        // Another node runs the first one.
        in_vain.look([second].into_iter());
        in_vain.add(second, late);
        assert!(in_vain.too_long(late).is_empty());
        assert_eq!(in_vain.too_long(late + IN_VAIN), [second]);
    }
}
