//! What `jobwright doctor` and the exporter of metrics ask: the database itself, and faults of what is stored.

use std::collections::BTreeSet;

use super::Admin;
use crate::error::Result;
use crate::store::{
    AdmissionLag, Installation, MigrationStatus, OverdueWork, Sampled, SkewedRows, UnreadableJobs, UnreadableRow,
    VacuumStatus, WaitingKinds,
};

impl Admin {
    /// Says which database this is and where, without a password.
    #[doc(hidden)]
    pub fn describe(&self) -> String {
        self.jobs.describe()
    }

    /// Returns which schema changes are applied and which are missing. Changes nothing; see
    /// [`MessageServices::migrate`](crate::MessageServices::migrate).
    ///
    /// # Errors
    /// When the database does not answer, or its schema is not one of this build or of a later one that it runs on.
    pub async fn migration_status(&self) -> Result<Vec<MigrationStatus>> {
        self.jobs.migration_status().await
    }

    /// Returns to which installation the database belongs, and whether it is where that was made. `None`: this database knows no installations.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    #[doc(hidden)]
    pub async fn installation(&self) -> Result<Option<Installation>> {
        self.jobs.installation().await
    }

    /// Returns how many dead rows the tables have, and what keeps those from being cleaned up. `None`: this database has no dead rows (SQLite).
    ///
    /// It reads statistics of the server and no table. What sessions of other roles hold is seen only with `pg_read_all_stats`.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    #[doc(hidden)]
    pub async fn vacuum(&self) -> Result<Option<VacuumStatus>> {
        self.jobs.vacuum().await
    }

    /// Returns the waiting jobs of these queues by kind. No index has the kinds, so jobs are read: at most 100,000, of each queue an equal share,
    /// and those that would be claimed first. [`WaitingKinds::partial`] names the queues that have more.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    #[doc(hidden)]
    pub async fn waiting_kinds<'a>(&self, queues: impl IntoIterator<Item = &'a str>) -> Result<WaitingKinds> {
        // One that is named twice would count twice.
        let queues: BTreeSet<&str> = queues.into_iter().collect();
        self.jobs.waiting_kinds(&queues.into_iter().collect::<Vec<_>>()).await
    }

    /// Describes faults of the permits: one that no job holds, one that an admitted job lacks, more than a group may have, or jobs blocked on a key
    /// whose permits are free and that nothing will unblock. Empty if all is well; while jobs run, one that passes is no fault. Reads everything.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    #[doc(hidden)]
    pub async fn permit_faults(&self) -> Result<Vec<String>> {
        self.jobs.permit_faults().await
    }

    /// Does the same, and reads only a part of large tables.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    #[doc(hidden)]
    pub async fn sampled_permit_faults(&self) -> Result<Sampled<Vec<String>>> {
        self.jobs.sampled_permit_faults().await
    }

    /// Returns how many unblocked keys are due that no admission pass has acted on yet. It is normal to see some for a short time.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    #[doc(hidden)]
    pub async fn overdue_unblocks(&self) -> Result<AdmissionLag> {
        self.jobs.overdue_unblocks().await
    }

    /// Returns for how long timers, times to live and leases of external workers have been due. Executors act on them within seconds.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    #[doc(hidden)]
    pub async fn overdue_work(&self) -> Result<OverdueWork> {
        self.jobs.overdue_work().await
    }

    /// Returns all times that lie ahead of the database's clock and should not. Reads everything. For schedules, see
    /// [`ScheduleService::clock_skew`](crate::ScheduleService::clock_skew).
    ///
    /// # Errors
    /// As [`status`](Self::status).
    #[doc(hidden)]
    pub async fn clock_skew(&self) -> Result<Vec<SkewedRows>> {
        self.jobs.clock_skew().await
    }

    /// Does the same, and reads only a part of large tables. The rows are those of that part.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    #[doc(hidden)]
    pub async fn sampled_clock_skew(&self) -> Result<Sampled<Vec<SkewedRows>>> {
        self.jobs.sampled_clock_skew().await
    }

    /// Returns how many of the newest 100,000 dead letters are jobs that no executor could read.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    #[doc(hidden)]
    pub async fn unreadable_jobs(&self) -> Result<UnreadableJobs> {
        self.jobs.unreadable_jobs().await
    }

    /// Returns the rules of which something can't be read by this build.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    #[doc(hidden)]
    pub async fn rule_faults(&self) -> Result<Vec<UnreadableRow>> {
        self.jobs.rule_faults().await
    }

    /// Returns the schedules that this build can't read.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    #[doc(hidden)]
    pub async fn schedule_faults(&self) -> Result<Vec<UnreadableRow>> {
        self.jobs.schedule_faults().await
    }
}
