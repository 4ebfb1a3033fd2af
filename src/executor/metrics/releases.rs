//! Why jobs are given back.

use std::collections::BTreeMap;

use super::stats::Tally;

/// Why a job was given back: it waits again, without an outcome, and at no attempt but for the last two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseReason {
    /// The node stopped, and the handler's time to end was over.
    Stopping,
    /// The node lost its lease, and stopped its work. Counted when it has registered again, of the jobs that nobody else has taken by then.
    LeaseLost,
    /// It was claimed, and could not begin: the group run that it belonged to ended before.
    NotBegun,
    /// Its kind can't run on this node, which leaves it alone.
    LeftAlone,
    /// It was done, and its batch was rolled back because of another job.
    RolledBack,
    /// Its claim succeeded, and the answer got lost.
    ClaimLost,
    /// The node that had it was silent for longer than its lease. The node that releases it counts it.
    OwnerLost,
    /// Its external worker did not report in time.
    WorkerLost,
}

impl ReleaseReason {
    const ALL: [Self; 8] = [
        Self::Stopping,
        Self::LeaseLost,
        Self::NotBegun,
        Self::LeftAlone,
        Self::RolledBack,
        Self::ClaimLost,
        Self::OwnerLost,
        Self::WorkerLost,
    ];

    /// Its name in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stopping => "stopping",
            Self::LeaseLost => "lease_lost",
            Self::NotBegun => "not_begun",
            Self::LeftAlone => "left_alone",
            Self::RolledBack => "rolled_back",
            Self::ClaimLost => "claim_lost",
            Self::OwnerLost => "owner_lost",
            Self::WorkerLost => "worker_lost",
        }
    }

    /// Returns all counts, also those that are 0: a rate needs the value before the first one.
    pub(crate) fn counts(tally: &Tally) -> BTreeMap<&'static str, u64> {
        let mut counts: BTreeMap<_, _> = Self::ALL.into_iter().map(|reason| (reason.as_str(), 0)).collect();
        counts.extend(tally.read());
        counts
    }
}
