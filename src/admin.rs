//! The management API: what stands behind every command for operators.

use std::sync::Arc;

use crate::codec::Codecs;
use crate::error::{Error, Result};
use crate::job::{JobId, NodeId};
use crate::message::WakeUp;
use crate::store::{
    Action, AuditEntry, AuditFilter, Change, DeadGroups, Hint, HistoryEntry, HistoryFilter, JobDetail, JobFilter,
    JobProgress, JobResult, JobStore, JobSummary, NodeStatus, Order, Page, QueueStatus, Released, RetryOptions, Rule,
    Scope, StatusReport, Steered,
};

/// Looks at jobs and steers them, on behalf of somebody. What a [codec](crate::codec) made is shown decoded; what it can't decode, as it
/// is stored. Got from [`MessageServices::admin`](crate::MessageServices::admin); cheap to
/// clone.
///
/// Every method that changes something takes effect on all nodes, wakes the executors that may have more to do, and leaves an entry in
/// the audit if somebody is named ([`by`](Self::by)).
///
/// ```no_run
/// # async fn f(messages: jobwright::MessageServices) -> jobwright::Result<()> {
/// use jobwright::store::{JobFilter, JobState};
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
    wakeup: Arc<WakeUp>,
    codecs: Codecs,
    by: Option<String>,
    dry_run: bool,
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin").field("jobs", &self.jobs).field("by", &self.by).finish_non_exhaustive()
    }
}

impl Admin {
    pub(crate) fn new(jobs: Arc<dyn JobStore>, wakeup: Arc<WakeUp>, codecs: Codecs) -> Self {
        Self { jobs, wakeup, codecs, by: None, dry_run: false }
    }

    /// Who does what follows, for the audit. At most 200 bytes.
    #[must_use]
    pub fn by(mut self, name: impl Into<String>) -> Self {
        self.by = Some(name.into());
        self
    }

    /// The same operator, but what is done to jobs is only counted. Rules and nodes are refused: there is nothing to count.
    #[must_use]
    pub fn dry_run(&self) -> Self {
        Self { dry_run: true, ..self.clone() }
    }

    // -- looking

    /// Counts, nodes and ages.
    ///
    /// # Errors
    /// As every method here: when the database does not answer, or its schema is not the one this build needs.
    pub async fn status(&self) -> Result<StatusReport> {
        self.jobs.status().await
    }

    /// Queues that hold something, with their counts.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn queues(&self) -> Result<Vec<QueueStatus>> {
        Ok(self.jobs.status().await?.queues)
    }

    /// Nodes that are alive, or dead and not yet cleared.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn nodes(&self) -> Result<Vec<NodeStatus>> {
        Ok(self.jobs.status().await?.nodes)
    }

    /// A page of the jobs that match, the first sent first. Pages are found by indexes, however many jobs there are; what makes one
    /// slow is a filter (kind, error, tenant, running among many waiting) that hardly any job passes.
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

    /// Everything known about one job; `None` = it is in no state any more.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn show(&self, id: JobId) -> Result<Option<JobDetail>> {
        Ok(self.jobs.show(id).await?.map(|detail| self.codecs.detail(detail)))
    }

    /// How far a job has got, and what its next attempt goes on from; `None` = its handler has said nothing.
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

    /// What a job's handler left when it was done, for as long as that is kept.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn result(&self, id: JobId) -> Result<Option<JobResult>> {
        self.jobs.result(id).await?.map(|result| self.codecs.result(result)).transpose()
    }

    /// What dead letters died of, at most `limit` groups. Those whose errors a codec has made are one group for each kind and queue.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn dead_groups(&self, filter: &JobFilter, limit: usize) -> Result<DeadGroups> {
        self.jobs.dead_groups(filter, limit).await
    }

    /// How attempts and jobs ended, the newest first, as far as history is kept.
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

    /// What operators did, the newest first.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn audit(&self, filter: &AuditFilter, limit: usize) -> Result<Vec<AuditEntry>> {
        self.jobs.audit(filter, limit).await
    }

    // -- jobs

    /// Does something to the jobs that match. The other methods about jobs are shorthand for it.
    ///
    /// # Errors
    /// When the action or the operator's name makes no sense; then nothing changed. When the database fails half-way: what was done
    /// stays, and is in the audit.
    pub async fn steer(&self, filter: &JobFilter, action: &Action) -> Result<Steered> {
        let order = Order { dry_run: self.dry_run, by: self.by.as_deref() };
        let steered = self.jobs.steer(filter, action, order).await;
        if !self.dry_run {
            // Also after an error: a part may be done.
            self.wakeup.tell([match action {
                Action::Suspend | Action::Cancel | Action::Delete => Hint::Gate,
                _ => Hint::Any,
            }]);
        }
        steered
    }

    /// Makes dead letters and timers wait again; a dead letter starts with no attempts spent.
    ///
    /// # Errors
    /// As [`steer`](Self::steer).
    pub async fn retry(&self, filter: &JobFilter) -> Result<Steered> {
        self.retry_with(filter, &RetryOptions::default()).await
    }

    /// The same for some of them, or for all but not all at once.
    ///
    /// # Errors
    /// As [`steer`](Self::steer).
    pub async fn retry_with(&self, filter: &JobFilter, options: &RetryOptions) -> Result<Steered> {
        let RetryOptions { dry_run, limit, spread } = *options;
        let who = if dry_run { self.dry_run() } else { self.clone() };
        who.steer(filter, &Action::Retry { limit, spread }).await
    }

    /// Removes live jobs. Handlers of running ones are told within about a second, may tidy up for
    /// [`cancel_grace`](crate::ExecutorConfig::cancel_grace), and commit nothing.
    ///
    /// # Errors
    /// As [`steer`](Self::steer).
    pub async fn cancel(&self, filter: &JobFilter) -> Result<Steered> {
        self.steer(filter, &Action::Cancel).await
    }

    /// Removes jobs for good, dead letters too; running ones are left alone.
    ///
    /// # Errors
    /// As [`steer`](Self::steer).
    pub async fn delete(&self, filter: &JobFilter) -> Result<Steered> {
        self.steer(filter, &Action::Delete).await
    }

    /// Sets aside what does not run. To keep back what is sent later too, put a rule that pauses.
    ///
    /// # Errors
    /// As [`steer`](Self::steer).
    pub async fn suspend(&self, filter: &JobFilter) -> Result<Steered> {
        self.steer(filter, &Action::Suspend).await
    }

    /// Makes suspended jobs wait again, for their due date if that is ahead.
    ///
    /// # Errors
    /// As [`steer`](Self::steer).
    pub async fn resume(&self, filter: &JobFilter) -> Result<Steered> {
        self.steer(filter, &Action::Resume).await
    }

    /// Makes timers and suspended jobs wait to be run at once.
    ///
    /// # Errors
    /// As [`steer`](Self::steer).
    pub async fn run_now(&self, filter: &JobFilter) -> Result<Steered> {
        self.steer(filter, &Action::RunNow).await
    }

    /// Changes jobs that do not run.
    ///
    /// # Errors
    /// As [`steer`](Self::steer).
    pub async fn change(&self, filter: &JobFilter, change: &Change) -> Result<Steered> {
        self.steer(filter, &Action::Change(change.clone())).await
    }

    // -- rules

    /// All rules, by scope and name.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn rules(&self) -> Result<Vec<Rule>> {
        self.jobs.rules().await
    }

    /// The rule of this scope and name, or one that asks for nothing.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn rule(&self, scope: Scope, name: &str) -> Result<Rule> {
        let mut rules = self.jobs.rules().await?.into_iter();
        Ok(rules.find(|rule| rule.scope == scope && rule.name == name).unwrap_or_else(|| Rule::new(scope, name)))
    }

    /// Sets a rule; one that asks for nothing is removed. It holds at once, on all nodes.
    ///
    /// # Errors
    /// When the rule makes no sense; then nothing changed.
    pub async fn put_rule(&self, rule: &Rule) -> Result<()> {
        self.meant("set a rule")?;
        crate::store::steering::check_name(self.by.as_deref())?;
        let put = self.jobs.put_rule_by(rule, self.by.as_deref()).await;
        self.wakeup.tell([Hint::Any]);
        put
    }

    /// Changes what is given of a rule, or of one that asks for nothing yet, and returns what it is then. Two who do so at the same
    /// moment don't undo each other, as they would with [`rule`](Self::rule) and [`put_rule`](Self::put_rule). All admission waits
    /// while `edit` runs.
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
        crate::store::steering::check_name(self.by.as_deref())?;
        let changed = self.jobs.change_rule(scope, name, Box::new(edit), self.by.as_deref()).await;
        self.wakeup.tell([Hint::Any]);
        changed
    }

    /// Lets nothing of a queue start, on all nodes, also what is sent later. What runs goes on. Its other rules stay.
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

    // -- nodes

    /// Declares a node dead and releases what it owns, each job at the cost of its attempt: when its machine is known to be gone and its
    /// lease is long. A node that lives after all commits nothing more, and starts anew under another id. `None` = there is no such
    /// node.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn condemn(&self, node: NodeId) -> Result<Option<Released>> {
        self.meant("declare a node dead")?;
        let released = self.jobs.condemn(node, self.by.as_deref()).await;
        self.wakeup.tell([Hint::Any]);
        released
    }

    fn meant(&self, what: &str) -> Result<()> {
        if self.dry_run {
            return Err(Error::invalid(format!(
                "a dry run can't {what}: only what is done to jobs can be counted first"
            )));
        }
        Ok(())
    }
}
