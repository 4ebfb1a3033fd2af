//! What operators see and do, as far as the oracle supports it: the other cases run on databases alone.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use jobwright::JobResult;
use jobwright::admin::{
    AffectedJobs, AuditEntry, AuditFilter, DeadLetterGroups, HistoryEntry, HistoryFilter, JobDetail, JobFilter,
    JobState, JobSummary, MigrationStatus, NodeStatus, Page, QueueStatus, Released, Rule, Scope, StatusReport,
};
use jobwright::internal::Action;
use jobwright::internal::engine::{
    JobPosition, KeyQuestion, KeyUse, Operator, OperatorOptions, RuleEdit, ServingNode, WaitingClass,
};
use jobwright::internal::{
    AdmissionLag, OverdueWork, Sampled, SkewedRows, UnreadableJobs, UnreadableRow, WaitingKinds,
};
use jobwright::{JobId, NodeId, Result};

use super::Oracle;
use super::model::{JobTable, State};

/// Returns the seconds from `earlier` to `later`.
fn seconds(earlier: Timestamp, later: Timestamp) -> f64 {
    later.duration_since(earlier).as_secs_f64()
}

#[async_trait]
impl Operator for Oracle {
    async fn migrate(&self) -> Result<Vec<MigrationStatus>> {
        self.lock().migrated.get_or_insert_with(Timestamp::now);
        self.migration_status().await
    }

    async fn migration_status(&self) -> Result<Vec<MigrationStatus>> {
        let applied_at = self.lock().migrated;
        let step = |(version, name): (i32, &str)| MigrationStatus {
            version,
            name: name.to_owned(),
            applied_at,
            known: true,
            compatible: true,
        };
        Ok(vec![step((1, "schema"))])
    }

    async fn status(&self) -> Result<StatusReport> {
        let now = Timestamp::now();
        let state = self.lock();
        let mut queues: BTreeMap<&str, QueueStatus> = BTreeMap::new();
        let mut running: BTreeMap<NodeId, u64> = BTreeMap::new();
        for row in state.jobs.values() {
            let name = row.message.queue.as_str();
            let queue =
                queues.entry(name).or_insert_with(|| QueueStatus { queue: name.to_owned(), ..Default::default() });
            match row.location {
                JobTable::Waiting => {
                    queue.waiting += 1_u64;
                    let age = seconds(row.created_at, now);
                    queue.oldest_waiting_seconds =
                        Some(queue.oldest_waiting_seconds.map_or(age, |oldest| oldest.max(age)));
                }
                JobTable::Suspect => queue.blocked += 1_u64,
                JobTable::Running { owner, .. } => {
                    queue.running += 1_u64;
                    *running.entry(owner).or_default() += 1;
                }
                JobTable::External { .. } => queue.external += 1_u64,
                JobTable::Timer { due } => {
                    queue.timer += 1_u64;
                    queue.overdue += u64::from(due <= now);
                    if due <= now {
                        let late = seconds(due, now);
                        queue.oldest_overdue_seconds =
                            Some(queue.oldest_overdue_seconds.map_or(late, |oldest| oldest.max(late)));
                    }
                }
                JobTable::Suspended => queue.suspended += 1_u64,
                JobTable::Dead { .. } => queue.dead += 1_u64,
            }
        }
        let nodes = state.nodes.iter().map(|(id, node)| NodeStatus {
            id: *id,
            name: node.info.name.clone(),
            host: node.info.host.clone(),
            pid: node.info.pid,
            started_at: node.started_at,
            lease_seconds_left: seconds(now, node.expires_at),
            dead: node.dead,
            running: running.get(id).copied().unwrap_or(0).into(),
            broker: node.broker.clone(),
            serves: node.info.serves.clone(),
            left_alone: BTreeMap::new(),
            failing: Vec::new(),
        });
        Ok(StatusReport { queues: queues.into_values().collect(), nodes: nodes.collect(), workers: Vec::new() })
    }

    async fn list(&self, filter: &JobFilter, page: &Page) -> Result<Vec<JobSummary>> {
        let state = self.lock();
        let (chosen, _) = state.select(filter, JobState::ALL);
        let rest = chosen.into_iter().filter(|seq| page.after.is_none_or(|after| *seq > after));
        Ok(rest.take(page.limit).map(|seq| state.jobs[&seq].summary()).collect())
    }

    async fn show(&self, id: JobId) -> Result<Option<JobDetail>> {
        Ok(self.lock().by_id(id).map(|row| JobDetail {
            summary: row.summary(),
            version: row.version,
            errors: row.errors.clone(),
            headers: row.message.headers.clone(),
            payload: row.message.payload.clone(),
            dead: match &row.location {
                JobTable::Dead { at, reason } => Some((*at, reason.clone())),
                _ => None,
            },
            options: row.message.options.clone(),
            blocked_on: matches!(row.location, JobTable::Suspect).then(|| "alone".to_owned()),
        }))
    }

    async fn dead_letter_groups(&self, filter: &JobFilter, newest: usize, limit: usize) -> Result<DeadLetterGroups> {
        Ok(self.lock().dead_letter_groups(filter, newest, limit))
    }

    async fn history(&self, _: &HistoryFilter, _: usize) -> Result<Vec<HistoryEntry>> {
        Ok(Vec::new())
    }

    async fn result(&self, _: JobId) -> Result<Option<JobResult>> {
        panic!("the oracle keeps no results")
    }

    async fn audit(&self, _: &AuditFilter, _: usize) -> Result<Vec<AuditEntry>> {
        Ok(Vec::new())
    }

    async fn rules(&self) -> Result<Vec<Rule>> {
        Ok(self.lock().rules.clone())
    }

    async fn operate(
        &self,
        filter: &JobFilter,
        action: &Action,
        operator: OperatorOptions<'_>,
    ) -> Result<AffectedJobs> {
        action.check()?;
        let mut state = self.lock();
        Ok(match action {
            Action::Retry { limit, spread } => {
                let mut options = jobwright::admin::RetryOptions::default().dry_run(operator.dry_run).spread(*spread);
                options.limit = *limit;
                state.retry(filter, &options)
            }
            Action::Cancel | Action::Delete => state.remove(filter, action.states(), operator.dry_run),
            other => panic!("the oracle can't {other:?}"),
        })
    }

    async fn evict(&self, _: NodeId, _: Option<&str>) -> Result<Option<Released>> {
        panic!("the oracle evicts nobody")
    }

    async fn change_rule(&self, scope: Scope, name: &str, edit: RuleEdit, _: Option<&str>) -> Result<Rule> {
        let mut state = self.lock();
        let old = state.rules.iter().find(|known| (known.scope, known.name.as_str()) == (scope, name));
        let mut rule = old.cloned().unwrap_or_else(|| Rule::new(scope, name));
        edit(&mut rule);
        rule.check()?;
        state.rules.retain(|known| (known.scope, &known.name) != (rule.scope, &rule.name));
        if !rule.is_empty() {
            state.rules.push(rule.clone());
        }
        state.rules.sort_by(|a, b| (a.scope.as_str(), &a.name).cmp(&(b.scope.as_str(), &b.name)));
        Ok(rule)
    }

    async fn permit_faults(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    async fn sampled_permit_faults(&self) -> Result<Sampled<Vec<String>>> {
        Ok(Sampled::default())
    }

    async fn overdue_work(&self) -> Result<OverdueWork> {
        Ok(OverdueWork::default())
    }

    async fn overdue_unblocks(&self) -> Result<AdmissionLag> {
        Ok(AdmissionLag::default())
    }

    async fn clock_skew(&self) -> Result<Vec<SkewedRows>> {
        Ok(Vec::new())
    }

    async fn sampled_clock_skew(&self) -> Result<Sampled<Vec<SkewedRows>>> {
        Ok(Sampled::default())
    }

    async fn unreadable_jobs(&self) -> Result<UnreadableJobs> {
        Ok(UnreadableJobs::default())
    }

    async fn position(&self, _: JobId) -> Result<JobPosition> {
        panic!("the oracle knows no reasons")
    }

    async fn serving_nodes(&self) -> Result<Vec<ServingNode>> {
        Ok(Vec::new())
    }

    async fn key_uses(&self, _: &[KeyQuestion]) -> Result<Vec<KeyUse>> {
        Ok(Vec::new())
    }

    async fn waiting_classes(&self, _: Option<&str>, _: Option<&str>) -> Result<Vec<WaitingClass>> {
        Ok(Vec::new())
    }

    async fn waiting_kinds(&self, _: &[&str]) -> Result<WaitingKinds> {
        Ok(WaitingKinds::default())
    }

    async fn rule_faults(&self) -> Result<Vec<UnreadableRow>> {
        Ok(Vec::new())
    }

    async fn schedule_faults(&self) -> Result<Vec<jobwright::internal::UnreadableRow>> {
        Ok(Vec::new())
    }
}

impl State {
    fn remove(&mut self, filter: &JobFilter, states: &[JobState], dry_run: bool) -> AffectedJobs {
        let (chosen, affected) = self.select(filter, states);
        for seq in chosen.into_iter().filter(|_| !dry_run) {
            self.jobs.remove(&seq);
        }
        affected
    }
}
