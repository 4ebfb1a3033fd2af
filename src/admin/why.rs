//! Why jobs do not run.

use jiff::Timestamp;

use super::Admin;
use crate::error::Result;
use crate::job::JobId;
use crate::store::why::{Facts, asked, reasons};
use crate::store::{AuditEntry, AuditFilter, HeldUp, JobDetail, Reason, Rule, Scope, ServingNode, SqlWorker, Why};

/// How many changes of rules are looked through for the one that paused a job.
const CHANGES: usize = 1000;
/// The audit's word for a change of a rule.
const RULE: &str = "rule";

/// Facts that the reasons of all jobs have in common.
struct Common {
    rules: Vec<Rule>,
    nodes: Vec<ServingNode>,
    workers: Vec<SqlWorker>,
}

impl Admin {
    /// Returns why a job does not run: a pause, a limit, a rate or a group and its holder, a kind or a queue that no living node serves, a due
    /// time, and so on. `None` = it is in no state any more.
    ///
    /// ```no_run
    /// # async fn f(messages: jobwright::MessageServices, id: jobwright::JobId) -> jobwright::Result<()> {
    /// if let Some(why) = messages.admin().why(id).await? {
    ///     for reason in &why.reasons {
    ///         println!("{reason}");
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn why(&self, id: JobId) -> Result<Option<Why>> {
        let common = self.common().await?;
        let Some(mut why) = self.explain(id, &common).await? else { return Ok(None) };
        self.name_operators(std::iter::once(&mut why)).await?;
        Ok(Some(why))
    }

    /// Returns the reasons why jobs wait or are blocked, of a queue or a kind, or of all: the 50 largest classes among the first 100,000 of
    /// these jobs. A class has jobs that the same rules cover and that nothing tells apart. Its example is the one that was sent first.
    ///
    /// # Errors
    /// As [`status`](Self::status).
    pub async fn why_waiting(&self, queue: Option<&str>, kind: Option<&str>) -> Result<Vec<HeldUp>> {
        let common = self.common().await?;
        let mut all = Vec::new();
        for class in self.jobs.waiting_classes(queue, kind).await? {
            // It may have gone since.
            if let Some(example) = self.explain(class.first, &common).await? {
                all.push(HeldUp { jobs: class.jobs, example });
            }
        }
        self.name_operators(all.iter_mut().map(|held| &mut held.example)).await?;
        Ok(all)
    }

    async fn common(&self) -> Result<Common> {
        let (rules, nodes) = (self.jobs.rules().await?, self.jobs.serving_nodes().await?);
        Ok(Common { rules, nodes, workers: self.jobs.sql_workers().await? })
    }

    async fn explain(&self, id: JobId, Common { rules, nodes, workers }: &Common) -> Result<Option<Why>> {
        let Some(job) = self.jobs.show(id).await? else { return Ok(None) };
        let position = self.jobs.position(id).await?;
        let keys = self.jobs.key_uses(&asked(&job, rules)).await?;
        let reasons = reasons(&job, &Facts { rules, nodes, workers, keys: &keys, position });
        let JobDetail { summary, .. } = job;
        Ok(Some(Why { id, kind: summary.kind, queue: summary.queue, state: summary.state, reasons }))
    }

    /// Adds who paused jobs, and when, as far as the audit goes back.
    async fn name_operators(&self, all: impl Iterator<Item = &mut Why>) -> Result<()> {
        let mut pauses: Vec<_> = all
            .flat_map(|why| &mut why.reasons)
            .filter_map(|reason| match reason {
                Reason::Paused { scope, name, by, since } => Some((*scope, &*name, by, since)),
                _ => None,
            })
            .collect();
        if pauses.is_empty() {
            return Ok(());
        }
        let changes = self.jobs.audit(&AuditFilter::default().action(RULE), CHANGES).await?;
        for (scope, name, by, since) in &mut pauses {
            if let Some((who, at)) = paused_by(&changes, *scope, name) {
                (**by, **since) = (Some(who), Some(at));
            }
        }
        Ok(())
    }
}

/// Finds the change since which a rule pauses, without a break. `changes` begin with the newest. `None`: it is older than they are.
fn paused_by(changes: &[AuditEntry], scope: Scope, name: &str) -> Option<(String, Timestamp)> {
    let of_rule = changes.iter().filter(|entry| entry.what["scope"] == scope.as_str() && entry.what["name"] == name);
    let mut since = None;
    for entry in of_rule {
        if entry.what["paused"] != true {
            return since;
        }
        since = Some((entry.who.clone(), entry.at));
    }
    since.filter(|_| changes.len() < CHANGES)
}
