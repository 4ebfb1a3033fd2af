//! The management API behind every command of an operator: [`Admin`], and the filters, actions and reports of its methods.
//!
//! [`MessageServices::admin`](crate::MessageServices::admin) returns it.

mod checks;
mod why;

use std::borrow::Cow;
use std::sync::Arc;

use crate::codec::Codecs;
use crate::error::{Error, Result};
use crate::job::{JobId, Limits, NodeId};
use crate::message::{MessageServices, ScheduleService, WakeUp};
use crate::store::job_operations::check_name;
pub use crate::store::schedules::{Backfilled, Put, PutOutcome, ScheduleInfo};
use crate::store::{
    Action, Adoption, Hint, Installation, JobResult, JobStore, OperationWatch, OperatorOptions, Schedules, Store,
};
pub use crate::store::{
    AffectedJobs, AuditEntry, AuditFilter, Change, Count, DeadLetterGroup, DeadLetterGroups, DueChange, EACH,
    FailingTask, HeldUp, HistoryEntry, HistoryFilter, HistoryOutcome, Holder, JobDetail, JobFilter, JobProgress,
    JobState, JobSummary, MigrationStatus, NodeStatus, Page, QueueStatus, Rate, Reason, Released, RetryOptions, Rule,
    Scope, Serves, ShareBy, Shares, StatusReport, TimeRange, Why,
};

/// Inspects and operates jobs on behalf of an operator. Content that a [codec](crate::codec) encoded is shown decoded; what it can't decode
/// is shown as stored. Obtained from [`MessageServices::admin`](crate::MessageServices::admin); cheap to clone.
///
/// Every method that changes something takes effect on all nodes, wakes the executors that may have more to do, and leaves an entry in the audit
/// log, in the name of the operator ([`by`](Self::by)).
///
/// ```no_run
/// # async fn f(messages: jobwright::MessageServices) -> jobwright::Result<()> {
/// use jobwright::admin::{JobFilter, JobState};
///
/// let admin = messages.admin().by("ann");
/// let dead = JobFilter::state(JobState::Dead).kind("send-invoice");
/// println!("{} would run again", admin.dry_run().retry(&dead).await?.total());
/// admin.retry(&dead).await?;
/// admin.pause_queue("mail").await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Admin {
    jobs: Arc<dyn JobStore>,
    schedules: Arc<dyn Schedules>,
    wakeup: Arc<WakeUp>,
    codecs: Codecs,
    /// For what a schedule sends.
    limits: Limits,
    by: Cow<'static, str>,
    dry_run: bool,
}

/// The operator recorded in the audit log when none is given.
const UNNAMED: &str = "(unnamed)";

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin")
            .field("jobs", &self.jobs)
            .field("by", &self.by)
            .field("dry_run", &self.dry_run)
            .finish_non_exhaustive()
    }
}

impl<S: Store> MessageServices<S> {
    /// Returns the management API, through which operators see and change what is stored.
    pub fn admin(&self) -> Admin {
        let shared = &self.shared;
        Admin {
            jobs: shared.jobs.clone(),
            schedules: shared.schedules.clone(),
            wakeup: shared.wakeup.clone(),
            codecs: shared.codecs.clone(),
            limits: shared.limits,
            by: UNNAMED.into(),
            dry_run: false,
        }
    }
}

impl Admin {
    /// Names the operator of the following calls, for the audit log. At most 200 bytes. Without a name, it is `(unnamed)`.
    #[must_use]
    pub fn by(mut self, name: impl Into<String>) -> Self {
        self.by = name.into().into();
        self
    }

    /// Returns the same operator in dry-run mode: operations on jobs only count them, and so does a backfill. Other changes of schedules,
    /// rules and nodes are refused, because they have nothing to count.
    #[must_use]
    pub fn dry_run(&self) -> Self {
        Self { dry_run: true, ..self.clone() }
    }

    // -- inspecting

    /// Returns counts, nodes and ages.
    ///
    /// # Errors
    /// As for every method here: when the database does not answer, or its schema is not the one this build needs.
    pub async fn status(&self) -> Result<StatusReport> {
        self.jobs.status().await
    }

    /// Returns the queues that hold jobs, with their counts.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn queues(&self) -> Result<Vec<QueueStatus>> {
        Ok(self.jobs.status().await?.queues)
    }

    /// Returns the nodes that are alive, and the dead ones that are not cleared yet.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn nodes(&self) -> Result<Vec<NodeStatus>> {
        Ok(self.jobs.status().await?.nodes)
    }

    /// Returns a page of the matching jobs, those sent first first. Pages are found by indexes, however many jobs there are. A page is slow
    /// only when its filter (kind, error, tenant, running among many waiting) matches hardly any job, and on SQLite also when it has waiting jobs
    /// of all queues or timers that are few among millions of jobs in other states.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn list(&self, filter: &JobFilter, page: &Page) -> Result<Vec<JobSummary>> {
        let mut jobs = self.jobs.list(filter, page).await?;
        for job in &mut jobs {
            self.codecs.read_error(&mut job.last_error, &job.kind);
        }
        Ok(jobs)
    }

    /// Returns everything known about one job; `None` if it is in no state any more.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn show(&self, id: JobId) -> Result<Option<JobDetail>> {
        Ok(self.jobs.show(id).await?.map(|detail| self.codecs.detail(detail)))
    }

    /// Returns how far a job has got, and the checkpoint from which its next attempt continues; `None` if its handler has reported nothing.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn progress(&self, id: JobId) -> Result<Option<JobProgress>> {
        let mut progress = self.jobs.progress(id).await?;
        if let Some(JobProgress { checkpoint: Some(checkpoint), .. }) = &mut progress
            && !self.codecs.is_empty()
            && let Some(job) = self.jobs.show(id).await?
        {
            self.codecs.read_checkpoint(checkpoint, &job.summary.kind);
        }
        Ok(progress)
    }

    /// Returns the result that a job's handler left, for as long as it is kept.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn result(&self, id: JobId) -> Result<Option<JobResult>> {
        self.jobs.result(id).await?.map(|result| self.codecs.result(result)).transpose()
    }

    /// Groups the `newest` dead letters that match by cause, in at most `limit` groups; [`DeadLetterGroups::NEWEST`] is a good number. Dead letters whose errors are encoded by a codec form one group for each
    /// kind and queue.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn dead_letter_groups(
        &self,
        filter: &JobFilter,
        newest: usize,
        limit: usize,
    ) -> Result<DeadLetterGroups> {
        self.jobs.dead_letter_groups(filter, newest, limit).await
    }

    /// Returns how attempts and jobs ended, newest first, as far as history is kept.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn history(&self, filter: &HistoryFilter, limit: usize) -> Result<Vec<HistoryEntry>> {
        let mut entries = self.jobs.history(filter, limit).await?;
        for entry in &mut entries {
            self.codecs.read_error(&mut entry.error, &entry.kind);
        }
        Ok(entries)
    }

    /// Returns what operators did, newest first.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn audit(&self, filter: &AuditFilter, limit: usize) -> Result<Vec<AuditEntry>> {
        self.jobs.audit(filter, limit).await
    }

    // -- jobs

    /// Applies an action to the matching jobs. The other methods about jobs are shorthand for it.
    #[doc(hidden)]
    pub async fn operate(&self, filter: &JobFilter, action: &Action) -> Result<AffectedJobs> {
        self.operate_watched(filter, action, &OperationWatch::default()).await
    }

    /// Does the same, and tells a watch how far it is. The watch can end it.
    #[doc(hidden)]
    pub async fn operate_watched(
        &self,
        filter: &JobFilter,
        action: &Action,
        watch: &OperationWatch,
    ) -> Result<AffectedJobs> {
        let operator = OperatorOptions { dry_run: self.dry_run, by: Some(&*self.by), watch: Some(watch) };
        // Also after an error, and if this call is given up: some of it may be done.
        let _notify = (!self.dry_run).then(|| self.wakeup.notify_on_drop(action.hint()));
        self.jobs.operate(filter, action, operator).await
    }

    /// Makes dead letters and timers wait again; a dead letter starts with no attempts spent.
    ///
    /// # Errors
    /// When the filter, an option or the operator's name is invalid; then nothing changed. When the database fails half-way: the changes made
    /// until then stay, and are in the audit log.
    pub async fn retry(&self, filter: &JobFilter) -> Result<AffectedJobs> {
        self.retry_with(filter, &RetryOptions::default()).await
    }

    /// Retries some of them, or all of them spread over a time.
    ///
    /// # Errors
    /// As [`retry`](Self::retry).
    pub async fn retry_with(&self, filter: &JobFilter, options: &RetryOptions) -> Result<AffectedJobs> {
        let RetryOptions { dry_run, limit, spread } = *options;
        let who = if dry_run { self.dry_run() } else { self.clone() };
        who.operate(filter, &Action::Retry { limit, spread }).await
    }

    /// Removes live jobs. Handlers of running ones are notified within about a second, may clean up for
    /// [`cancel_grace`](crate::ExecutorConfig::cancel_grace), and commit nothing.
    ///
    /// # Errors
    /// As [`retry`](Self::retry).
    pub async fn cancel(&self, filter: &JobFilter) -> Result<AffectedJobs> {
        self.operate(filter, &Action::Cancel).await
    }

    /// Removes jobs for good, including dead letters; running ones are left alone.
    ///
    /// # Errors
    /// As [`retry`](Self::retry).
    pub async fn delete(&self, filter: &JobFilter) -> Result<AffectedJobs> {
        self.operate(filter, &Action::Delete).await
    }

    /// Suspends the jobs that are not running. To stop jobs that are sent later as well, set a rule that pauses.
    ///
    /// # Errors
    /// As [`retry`](Self::retry).
    pub async fn suspend(&self, filter: &JobFilter) -> Result<AffectedJobs> {
        self.operate(filter, &Action::Suspend).await
    }

    /// Makes suspended jobs wait again, until their due date if that is in the future.
    ///
    /// # Errors
    /// As [`retry`](Self::retry).
    pub async fn resume(&self, filter: &JobFilter) -> Result<AffectedJobs> {
        self.operate(filter, &Action::Resume).await
    }

    /// Makes timers and suspended jobs due now.
    ///
    /// # Errors
    /// As [`retry`](Self::retry).
    pub async fn run_now(&self, filter: &JobFilter) -> Result<AffectedJobs> {
        self.operate(filter, &Action::RunNow).await
    }

    /// Changes jobs that are not running.
    ///
    /// # Errors
    /// As [`retry`](Self::retry).
    pub async fn change(&self, filter: &JobFilter, change: &Change) -> Result<AffectedJobs> {
        self.operate(filter, &Action::Change(change.clone())).await
    }

    // -- rules

    /// Returns all rules, ordered by scope and name.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn rules(&self) -> Result<Vec<Rule>> {
        self.jobs.rules().await
    }

    /// Returns the rule of this scope and name, or an empty one.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn rule(&self, scope: Scope, name: &str) -> Result<Rule> {
        let mut rules = self.jobs.rules().await?.into_iter();
        Ok(rules.find(|rule| rule.scope == scope && rule.name == name).unwrap_or_else(|| Rule::new(scope, name)))
    }

    /// Sets a rule; an empty one is removed. It takes effect at once, on all nodes.
    ///
    /// # Errors
    /// When the rule is invalid; then nothing changed.
    pub async fn put_rule(&self, rule: &Rule) -> Result<()> {
        rule.check()?;
        let new = rule.clone();
        self.change_rule(rule.scope, &rule.name, move |old| *old = new).await.map(drop)
    }

    /// Edits a rule (an empty one, if there is none yet) and returns the result. Concurrent edits don't overwrite each other, as they would
    /// with [`rule`](Self::rule) and [`put_rule`](Self::put_rule). All admission waits while `edit` runs.
    ///
    /// # Errors
    /// As [`put_rule`](Self::put_rule).
    pub async fn change_rule(
        &self,
        scope: Scope,
        name: &str,
        edit: impl FnOnce(&mut Rule) + Send + 'static,
    ) -> Result<Rule> {
        self.meant("set a rule")?;
        check_name(Some(&*self.by))?;
        let changed = self.jobs.change_rule(scope, name, Box::new(edit), Some(&*self.by)).await;
        self.wakeup.notify([Hint::Any]);
        changed
    }

    /// Stops the jobs of a queue from starting, on all nodes, including jobs sent later. Running jobs go on. The queue's other rules stay.
    ///
    /// # Errors
    /// As [`put_rule`](Self::put_rule).
    pub async fn pause_queue(&self, queue: &str) -> Result<()> {
        self.change_rule(Scope::Queue, queue, |rule| rule.paused = true).await.map(drop)
    }

    /// Ends a pause.
    ///
    /// # Errors
    /// As [`put_rule`](Self::put_rule).
    pub async fn resume_queue(&self, queue: &str) -> Result<()> {
        self.change_rule(Scope::Queue, queue, |rule| rule.paused = false).await.map(drop)
    }

    // -- schedules

    /// Returns the repeating jobs, to be listed, and changed in the name of this operator. A dry run counts a backfill and refuses all else.
    pub fn schedules(&self) -> ScheduleService {
        ScheduleService::new(self.schedules.clone(), self.wakeup.clone(), self.codecs.clone(), self.limits)
            .by(&*self.by)
            .dry_run(self.dry_run)
    }

    // -- nodes

    /// Declares a node dead and releases what it owns; each of its jobs loses an attempt. It is meant for a node whose machine is known to
    /// be gone but whose lease is long. A node that turns out to be alive commits nothing more, and starts again under another id. `None`
    /// means that there is no such node.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn evict(&self, node: NodeId) -> Result<Option<Released>> {
        self.meant("declare a node dead")?;
        let released = self.jobs.evict(node, Some(&*self.by)).await;
        self.wakeup.notify([Hint::Any]);
        released
    }

    /// Makes a database that is a copy an installation of its own: it gets a new id, and a new key for the tokens of hand-outs. Executors run on
    /// a copy only after that. It needs the rights of the schema's owner. `None`: this database knows no installations.
    ///
    /// # Errors
    /// When this is a dry run, or the database does not answer or refuses.
    #[doc(hidden)]
    pub async fn adopt_copy(&self) -> Result<Option<Installation>> {
        self.meant("adopt a database")?;
        self.jobs.adopt(Adoption::Copy, Some(&*self.by)).await
    }

    /// Records that the installation of this database is here now, and keeps its id: for a database that takes the place of the one from which
    /// it was copied. The other must be gone for good. It needs the rights of the schema's owner.
    ///
    /// # Errors
    /// As [`adopt_copy`](Self::adopt_copy).
    #[doc(hidden)]
    pub async fn adopt_moved(&self) -> Result<Option<Installation>> {
        self.meant("adopt a database")?;
        self.jobs.adopt(Adoption::Moved, Some(&*self.by)).await
    }

    fn meant(&self, what: &str) -> Result<()> {
        if self.dry_run { Err(Error::no_dry_run(what)) } else { Ok(()) }
    }
}
