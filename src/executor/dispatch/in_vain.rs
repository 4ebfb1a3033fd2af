//! Since when suspects wait in vain.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::job::JobId;
use crate::store::Suspect;

/// How long suspects may wait in vain.
const IN_VAIN: Duration = Duration::from_secs(600);

/// Since when this node has tried to run suspects that still wait, while no node ran any of them. One that ran and is a suspect
/// again is another one here: it has waited from then on only.
#[derive(Debug, Default)]
pub(super) struct InVain(HashMap<Key, Instant>);

/// A job, with the token and the attempts of its last claim. The tokens of several nodes may be the same, and so may the attempts before and after
/// a claim that was given back.
type Key = (JobId, i64, u32);

fn key(suspect: &Suspect) -> Key {
    (suspect.id, suspect.version, suspect.attempt)
}

impl InVain {
    /// Learns which suspects wait now. If one does no more, or has run meanwhile, some node runs suspects, and the others have their turn after
    /// it: a busy node must not acquit suspects that other nodes work through.
    pub(super) fn look(&mut self, waiting: &[Suspect]) {
        let known = waiting.iter().filter(|suspect| self.0.contains_key(&key(suspect))).count();
        if known < self.0.len() {
            self.clear();
        }
    }

    /// Notes that some could not be run now.
    pub(super) fn add<'a>(&mut self, suspects: impl IntoIterator<Item = &'a Suspect>, now: Instant) {
        for suspect in suspects {
            self.0.entry(key(suspect)).or_insert(now);
        }
    }

    /// Forgets those that are suspects no more.
    pub(super) fn remove(&mut self, ids: &[JobId]) {
        self.0.retain(|(id, ..), _| !ids.contains(id));
    }

    /// Notes that one ran.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns those that have waited for too long.
    pub(super) fn too_long(&self, now: Instant) -> Vec<JobId> {
        let over = self.0.iter().filter(|(_, since)| now.duration_since(**since) >= IN_VAIN);
        over.map(|((id, ..), _)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suspect() -> Suspect {
        let (queue, kind) = ("q".to_owned(), "k".to_owned());
        Suspect { id: JobId::new(), version: 1, attempt: 1, queue, kind, needs_permits: false }
    }

    #[test]
    fn suspects_that_other_nodes_work_through_do_not_wait_in_vain() {
        let (both, began) = ([suspect(), suspect()], Instant::now());
        let late = began + IN_VAIN;
        let mut in_vain = InVain::default();
        in_vain.add(&both, began);
        in_vain.look(&[both[0].clone(), both[1].clone(), suspect()]);
        in_vain.add(&both[..1], late);
        let mut over = in_vain.too_long(late);
        over.sort_unstable();
        let mut all = both.each_ref().map(|suspect| suspect.id);
        all.sort_unstable();
        assert_eq!(over, all, "nothing happened for as long");
        assert!(in_vain.too_long(late.checked_sub(Duration::from_secs(1)).unwrap()).is_empty());

        // Another node runs the first one.
        in_vain.look(&both[1..]);
        in_vain.add(&both[1..], late);
        assert!(in_vain.too_long(late).is_empty());
        assert_eq!(in_vain.too_long(late + IN_VAIN), [both[1].id]);

        // It is acquitted, which says nothing about others.
        let third = suspect();
        in_vain.add([&third], late);
        in_vain.remove(&[both[1].id]);
        in_vain.look(std::slice::from_ref(&third));
        assert_eq!(in_vain.too_long(late + IN_VAIN), [third.id]);
    }

    /// Another node ran it, and died, while this one looked at nothing.
    #[test]
    fn one_that_ran_has_not_waited_in_vain() {
        let (waits, mut runs) = (suspect(), suspect());
        let began = Instant::now();
        let late = began + IN_VAIN;
        let mut in_vain = InVain::default();
        in_vain.add([&waits, &runs], began);
        // Its claim was the first one of each.
        runs.attempt += 1;
        in_vain.look(&[waits.clone(), runs.clone()]);
        in_vain.add([&waits, &runs], late);
        assert!(in_vain.too_long(late).is_empty());

        // The only one runs, so none waits.
        in_vain.look(&[]);
        in_vain.add([&runs], late + IN_VAIN);
        assert!(in_vain.too_long(late + IN_VAIN).is_empty());
    }
}
