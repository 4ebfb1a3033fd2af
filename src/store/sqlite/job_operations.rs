//! Actions of operators: see `store::job_operations`.

use rusqlite::{Connection, ToSql, named_params};

use super::error::Work;
use super::filter::Filter;
use super::history::Memory;
use super::rows::{Micros, job_id, micros};
use super::shared::Shared;
use super::statements::{Statement, statement};
use super::{audit, retry};
use crate::config::Keep;
use crate::error::Result;
use crate::job::{Fence, JobId, NodeId};
use crate::store::job_operations::{Chunk, check_name, what};
use crate::store::{
    Action, AffectedJobs, Change, DueChange, HistoryOutcome, JobFilter, JobState, OperatorOptions, Released,
};

const REMOVE: &str = include_str!("sql/remove.sql");
const EVICT: &str = include_str!("sql/evict.sql");
const CHOOSE: &str = include_str!("sql/choose.sql");
static TO_SUSPENDED: Statement = statement!("sql/to_suspended.sql");
static TO_JOB: Statement = statement!("sql/to_job.sql");
static SUSPENDED_TO_TIMER: Statement = statement!("sql/suspended_to_timer.sql");
const CHANGE: &str = include_str!("sql/change.sql");
const TRANSFER_PERMITS: &str = include_str!("sql/transfer_permits.sql");
const STILL_OWNED: &str = include_str!("sql/still_owned.sql");

/// How many jobs of a dead node are released in one transaction.
const RELEASED: usize = 500;

impl Shared {
    pub(super) async fn operate(
        &self,
        filter: &JobFilter,
        action: &Action,
        operator: OperatorOptions<'_>,
    ) -> Result<AffectedJobs> {
        action.check()?;
        check_name(operator.by)?;
        if operator.dry_run {
            return self.count_affected(filter, action).await;
        }
        let (mut all, mut entry) = (AffectedJobs::default(), None);
        for part in self.fragments(filter, action).await? {
            let (action, by, keep) = (action.clone(), operator.by.map(str::to_owned), self.history.keep);
            let (what, mut so_far) = (what(filter, &action), all.clone());
            (all, entry) = self
                .write("steer jobs", move |connection, now| {
                    so_far.add(&Step { connection, keep, now }.apply(&part, &action)?);
                    let entry = match entry {
                        Some(id) => Some(id),
                        None => audit::write(connection, by.as_deref(), action.as_str(), &what, now)?,
                    };
                    if let Some(id) = entry {
                        audit::counts(connection, id, &so_far)?;
                    }
                    Ok((so_far, entry))
                })
                .await?;
        }
        Ok(all)
    }

    pub(super) async fn stale_claims(&self, node: NodeId, fences: &[Fence]) -> Result<Vec<Fence>> {
        let fences = fences.to_vec();
        self.check("look for cancelled jobs", move |connection, _| {
            let mut statement = connection.prepare_cached(STILL_OWNED)?;
            let mut stale_claims = Vec::new();
            for fence in fences {
                let id = fence.id.as_uuid().as_bytes();
                if !statement.exists(named_params! { ":id": id, ":version": fence.version, ":node": node.0 })? {
                    stale_claims.push(fence);
                }
            }
            Ok(stale_claims)
        })
        .await
    }

    pub(super) async fn evict(&self, node: NodeId, by: Option<&str>) -> Result<Option<Released>> {
        check_name(by)?;
        let by = by.map(str::to_owned);
        let known = self
            .write("declare a node dead", move |connection, now| {
                let params = named_params! { ":node": node.0, ":now": now };
                let known = connection.prepare_cached(EVICT)?.execute(params)? == 1;
                if known {
                    let what = serde_json::json!({ "node": node });
                    audit::write(connection, by.as_deref(), "evict", &what, now)?;
                }
                Ok(known)
            })
            .await?;
        if !known {
            return Ok(None);
        }
        let mut all = Released::default();
        loop {
            let released = self.release_lost(RELEASED, None).await?;
            all.waiting += released.waiting;
            all.dead += released.dead;
            all.ended += released.ended;
            if released.total() < RELEASED as u64 {
                return Ok(Some(all));
            }
        }
    }
}

impl Shared {
    async fn count_affected(&self, filter: &JobFilter, action: &Action) -> Result<AffectedJobs> {
        let chosen = Filter::new(filter, action.states());
        if let Some(options) = action.retry(true) {
            return self.query("count jobs", move |connection, _| retry::would(&chosen, connection, &options)).await;
        }
        self.query("count jobs", move |connection, _| chosen.count(connection)).await
    }

    /// Returns the matching jobs in chunks of one transaction each.
    async fn fragments(&self, filter: &JobFilter, action: &Action) -> Result<Vec<Chunk>> {
        if let Some(whole) = Chunk::whole(filter, action) {
            return Ok(whole);
        }
        let chosen = Filter::new(filter, action.states());
        let mut ids = self.query("choose jobs", move |connection, _| ids(&chosen, connection)).await?;
        if let Action::Retry { limit: Some(limit), .. } = action {
            ids.truncate(usize::try_from(*limit).unwrap_or(usize::MAX));
        }
        Ok(Chunk::cut(filter, &ids))
    }
}

/// Returns the ids of the matching jobs, oldest first.
fn ids(chosen: &Filter, connection: &Connection) -> Work<Vec<JobId>> {
    let mut all = Vec::new();
    for state in &chosen.states {
        let mut statement = connection.prepare_cached(&chosen.sql(CHOOSE, *state))?;
        chosen.bind(&mut statement)?;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            all.push((row.get::<_, i64>("seq")?, job_id(row, "id")?));
        }
    }
    all.sort_unstable();
    Ok(all.into_iter().map(|(_, id)| id).collect())
}

/// One transaction of an action.
struct Step<'a> {
    connection: &'a Connection,
    keep: Keep,
    now: Micros,
}

impl Step<'_> {
    fn apply(&self, part: &Chunk, action: &Action) -> Work<AffectedJobs> {
        let chosen = Filter::new(&part.filter, action.states());
        match action {
            Action::Suspend => chosen.operate(|state| self.suspend(&chosen, state)),
            Action::Resume => chosen.operate(|_| self.resume(&chosen)),
            Action::RunNow => chosen.operate(|state| {
                chosen.execute(self.connection, &TO_JOB, state)?;
                chosen.execute(self.connection, REMOVE, state)
            }),
            Action::Change(change) => self.change(&part.filter, &chosen, change),
            Action::Retry { spread, .. } => retry::run(&chosen, self.connection, part, *spread, self.now),
            Action::Cancel => self.cancel(&chosen),
            Action::Delete => self.remove(&chosen, HistoryOutcome::Deleted),
        }
    }

    /// Cancels jobs. The permits and keys of a running job stay taken until its handler has ended, so they are transferred before the row
    /// is deleted.
    fn cancel(&self, chosen: &Filter) -> Work<AffectedJobs> {
        chosen.operate(|state| {
            let who = match state {
                JobState::Running => Some(("lock_owner", "null")),
                JobState::External => Some(("null", "lease_until")),
                _ => None,
            };
            if let Some((node, until)) = who {
                let keep = TRANSFER_PERMITS.replace("{node}", node).replace("{until}", until);
                chosen.execute(self.connection, &keep, state)?;
            }
            Ok(0)
        })?;
        self.remove(chosen, HistoryOutcome::Cancelled)
    }

    fn remove(&self, chosen: &Filter, ending: HistoryOutcome) -> Work<AffectedJobs> {
        let (keep, now) = (self.keep, self.now);
        chosen.operate(|state| {
            if (Memory { keep, now }).keeps(ending) {
                chosen.remember(self.connection, state, ending, now)?;
            }
            chosen.execute(self.connection, REMOVE, state)
        })
    }

    /// Copies before it deletes: the trigger on the deletion decides by the remaining rows what the job still holds.
    fn suspend(&self, chosen: &Filter, state: JobState) -> rusqlite::Result<u64> {
        let due_at = if state == JobState::Timer { "due_at" } else { "null" };
        let copy = TO_SUSPENDED.replace("{due_at}", due_at);
        chosen.execute_with(self.connection, &copy, state, &[(":now", &self.now)])?;
        chosen.execute(self.connection, REMOVE, state)
    }

    fn resume(&self, chosen: &Filter) -> rusqlite::Result<u64> {
        let state = JobState::Suspended;
        let now: &[(&str, &dyn ToSql)] = &[(":now", &self.now)];
        chosen.execute_with(self.connection, &SUSPENDED_TO_TIMER, state, now)?;
        let due = TO_JOB.replace("{filter}", "(due_at is null or due_at <= :now) and {filter}");
        chosen.execute_with(self.connection, &due, state, now)?;
        chosen.execute(self.connection, REMOVE, state)
    }

    /// Changes jobs. Waiting jobs that have to move pass through `suspended_job`: there they hold nothing but their group, if they are
    /// ordered, and come back as if they had just been sent.
    fn change(&self, part: &JobFilter, chosen: &Filter, change: &Change) -> Work<AffectedJobs> {
        let waits = |state: &JobState| matches!(state, JobState::Waiting | JobState::Blocked);
        if !change.moves() {
            return chosen.operate(|state| self.set(chosen, state, change));
        }
        let idle: Vec<JobState> = chosen.states.iter().copied().filter(|state| !waits(state)).collect();
        let idle = Filter::new(part, &idle);
        let mut all = idle.operate(|state| self.set(&idle, state, change))?;
        let waiting = Filter::new(part, &[JobState::Waiting, JobState::Blocked]);
        let moved = JobFilter::ids(ids(&waiting, self.connection)?);
        let moved = Filter::new(&moved, &[JobState::Suspended]);
        all.add(&waiting.operate(|state| self.suspend(&waiting, state))?);
        moved.operate(|state| self.set(&moved, state, change))?;
        moved.operate(|_| self.resume(&moved))?;
        Ok(all)
    }

    fn set(&self, chosen: &Filter, state: JobState, change: &Change) -> rusqlite::Result<u64> {
        let due_at = match change.due {
            Some(DueChange::At(at)) => Some(at.as_microsecond()),
            Some(DueChange::In(delay)) => Some(self.now.saturating_add(micros(delay))),
            None => None,
        };
        let dated = matches!(state, JobState::Timer | JobState::Suspended) && due_at.is_some();
        let sql = CHANGE.replace("{due}", if dated { ", due_at = :to_due" } else { "" });
        let rank = change.priority.map(|priority| -priority);
        chosen.execute_with(
            self.connection,
            &sql,
            state,
            &[
                (":to_rank", &rank),
                (":to_queue", &change.queue),
                (":to_attempts", &change.max_attempts),
                (":to_due", &due_at),
            ],
        )
    }
}
