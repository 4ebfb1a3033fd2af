//! Gates inside handlers, one for each run of each job.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use jobwright::JobId;
use tokio::sync::watch;

use crate::support::environment::PATIENCE;
use crate::support::eventually;

/// The number of runs of each job in this process, and which of these runs may go on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gates {
    runs: Arc<Mutex<BTreeMap<JobId, u32>>>,
    open: Arc<watch::Sender<BTreeSet<(JobId, u32)>>>,
}

impl Gates {
    /// Counts a run: the first is 1.
    pub(crate) fn enter(&self, id: JobId) -> u32 {
        let mut runs = self.runs.lock().unwrap();
        let run = runs.entry(id).or_default();
        *run += 1;
        *run
    }

    pub(crate) fn runs(&self, id: JobId) -> u32 {
        self.runs.lock().unwrap().get(&id).copied().unwrap_or_default()
    }

    pub(crate) async fn pass(&self, id: JobId, run: u32) {
        let mut open = self.open.subscribe();
        let _ = open.wait_for(|open| open.contains(&(id, run))).await;
    }

    pub(crate) fn open(&self, id: JobId, run: u32) {
        self.open.send_modify(|open| {
            open.insert((id, run));
        });
    }

    /// Lets this run and all after it pass.
    pub(crate) fn open_from(&self, id: JobId, run: u32) {
        (run..run + 1000).for_each(|run| self.open(id, run));
    }

    /// Waits until a run has begun.
    #[track_caller]
    pub(crate) fn begun(&self, id: JobId, run: u32) -> impl Future<Output = ()> {
        let gates = self.clone();
        eventually(PATIENCE, async move || gates.runs(id) >= run)
    }
}
