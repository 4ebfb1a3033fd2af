//! The slot of a finished job, on its way to the next jobs of its group: see [`groups`](crate::executor::groups).

use std::sync::Arc;
use std::time::Duration;

use crate::executor::node::in_flight::GroupLease;
use crate::executor::node::slots::Slots;
use crate::store::GroupClaim;

/// The target run time of the jobs taken together. More important jobs may have to wait this long, and so may finished jobs to be recorded.
const RUN_TARGET: Duration = Duration::from_millis(10);
/// What the payloads of the jobs taken together may have, in bytes, as far as those before them tell. A slot must not cost the memory of many jobs.
const RUN_BYTES: usize = 1024 * 1024;
/// The most jobs of a group that are taken together.
const MOST: usize = 64;
/// The same for the first time, when one job is all that is known of its group.
const MOST_AT_FIRST: usize = 16;
/// How many jobs to ask for of a group that just ran dry. The fewer, the more groups fit into one statement.
const FEW: usize = 2;
/// By which factor the number of jobs may grow for a group that did not run dry.
const FASTER: usize = 4;

/// The slot of a finished job, offered to the next jobs of its group.
#[derive(Debug)]
pub(crate) struct GroupRun {
    pub(crate) group: GroupClaim,
    /// The lease by which the node holds the group while no job does.
    pub(crate) lease: Option<GroupLease>,
    pub(crate) slots: Arc<Slots>,
}

impl GroupRun {
    /// Sets how many jobs to ask for: `taken` jobs were claimed the last time, and `ran` of them ran in the time `took`. The largest had a payload
    /// of `largest` bytes.
    pub(crate) fn pace(&mut self, taken: usize, ran: usize, took: Duration, largest: usize) {
        let most = match &self.lease {
            None => MOST_AT_FIRST,
            Some(_) if taken < self.group.wanted => FEW,
            Some(_) => MOST.min(FASTER * taken),
        };
        let each = took / u32::try_from(ran.max(1)).unwrap_or(u32::MAX);
        self.group.wanted = fit(each, largest).clamp(1, most);
    }

    /// Notes that this lease holds the group now.
    pub(crate) fn leased(&mut self, lease: GroupLease) {
        self.group.holder = self.group.lease;
        self.lease = Some(lease);
    }

    /// Leaves the group held until the node is retired.
    pub(crate) fn keep(self) {
        if let Some(lease) = self.lease {
            std::mem::forget(lease);
        }
    }

    /// Asks for no more jobs, so that the group and the slot become free.
    pub(crate) fn end(&mut self) {
        self.group.wanted = 0;
    }
}

/// Returns how many jobs fit into a run that take this time each, and this many bytes.
fn fit(each: Duration, largest: usize) -> usize {
    let in_time = usize::try_from(RUN_TARGET.as_nanos() / each.as_nanos().max(1)).unwrap_or(MOST);
    in_time.min(RUN_BYTES / largest.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_as_long_as_its_time_and_its_memory_allow() {
        let quick = Duration::from_micros(100);
        assert_eq!(fit(quick, 100), 100);
        assert_eq!(fit(Duration::from_millis(5), 100), 2);
        assert_eq!(fit(quick, 100 * 1024), 10);
        // One is always taken.
        assert_eq!(fit(quick, 4 * RUN_BYTES), 0);
        assert_eq!(fit(Duration::ZERO, 0), RUN_BYTES);
    }
}
