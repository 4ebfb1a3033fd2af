//! How an operation on jobs is asked for, watched and ended.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::AffectedJobs;

/// Watches an operation on many jobs, which takes several transactions, and can end it between two of them.
///
/// ```no_run
/// # async fn f(admin: jobwright::admin::Admin) -> jobwright::Result<()> {
/// use jobwright::admin::{JobFilter, JobState};
/// use jobwright::internal::{Action, OperationWatch};
///
/// let (watch, filter) = (OperationWatch::default(), JobFilter::state(JobState::Dead));
/// let deleting = admin.operate_watched(&filter, &Action::Delete, &watch);
/// tokio::pin!(deleting);
/// let deleted = tokio::select! {
///     deleted = &mut deleting => deleted?,
///     _ = tokio::signal::ctrl_c() => {
///         watch.stop();
///         deleting.await?
///     }
/// };
/// println!("{} were deleted", deleted.total());
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
pub struct OperationWatch {
    done: AtomicU64,
    is_stopped: AtomicBool,
    is_cut_short: AtomicBool,
}

impl OperationWatch {
    /// Returns how many jobs have been changed so far, in transactions that are committed.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Ends the operation after its present transaction. The changes so far stay.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Returns whether it was [stopped](Self::stop).
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Returns whether jobs were left because it was stopped: the last transaction may have been under way.
    pub fn is_cut_short(&self) -> bool {
        self.is_cut_short.load(Ordering::Relaxed)
    }
}

/// Who asks for an operation, and whether it is a dry run.
#[derive(Clone, Copy, Debug, Default)]
pub struct OperatorOptions<'a> {
    /// Whether only to count the jobs.
    pub dry_run: bool,
    /// The operator's name, for the audit; `None` = no entry. At most 200 bytes.
    pub by: Option<&'a str>,
    /// Watches what is done, and may end it.
    pub watch: Option<&'a OperationWatch>,
}

impl OperatorOptions<'_> {
    /// Only counts the jobs.
    pub const DRY_RUN: Self = Self { dry_run: true, by: None, watch: None };
    /// Makes the changes, without an entry in the audit.
    pub const UNNAMED: Self = Self { dry_run: false, by: None, watch: None };

    /// Returns whether no more transactions are wanted. To be asked where there is one more.
    pub(crate) fn is_cut_short(&self) -> bool {
        let stopped = self.watch.filter(|watch| watch.is_stopped());
        stopped.inspect(|watch| watch.is_cut_short.store(true, Ordering::Relaxed)).is_some()
    }

    /// Notes how many jobs have been changed.
    pub(crate) fn note(&self, all: &AffectedJobs) {
        if let Some(watch) = self.watch {
            watch.done.store(all.total(), Ordering::Relaxed);
        }
    }
}
