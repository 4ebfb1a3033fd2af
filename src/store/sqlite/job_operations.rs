//! Actions of operators: see `store::job_operations`.

use rusqlite::{Connection, ToSql, named_params};

use super::error::Work;
use super::filter::Filter;
use super::history::{Memory, remember_where};
use super::rows::{Micros, job_id, micros};
use super::shared::Shared;
use super::{audit, retry};
use crate::config::Keep;
use crate::error::Result;
use crate::job::{JobId, NodeId};
use crate::store::job_operations::{Chunk, check_name, what};
use crate::store::sections::section;
use crate::store::{Action, AffectedJobs, Change, DueChange, HistoryOutcome, JobFilter, OperatorOptions, Released};

const SQL: &str = include_str!("job_operations.sql");
const CHOOSE: &str = section(SQL, "choose");
const OLDEST_FIRST: &str = section(SQL, "oldest_first");
const SUSPEND: &str = section(SQL, "suspend");
const RESUME: &str = section(SQL, "resume");
const RUN_NOW: &str = section(SQL, "run_now");
const CHANGE: &str = section(SQL, "change");
const MOVED: &str = section(SQL, "moved");
const TRANSFER_PERMITS: &str = section(SQL, "transfer_permits");
const REMOVE: &str = section(SQL, "remove");
const EVICT: &str = section(SQL, "evict");

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
            if operator.is_cut_short() {
                break;
            }
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
            operator.note(&all);
        }
        Ok(all)
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
    Ok(chosen.query(connection, (CHOOSE, OLDEST_FIRST), &[], |row| job_id(row, "id"))?)
}

/// One transaction of an action.
struct Step<'a> {
    connection: &'a Connection,
    keep: Keep,
    now: Micros,
}

impl Step<'_> {
    /// Does it, and returns how many jobs it was done to, by the state that they were in.
    fn apply(&self, part: &Chunk, action: &Action) -> Work<AffectedJobs> {
        let chosen = Filter::new(&part.filter, action.states());
        let affected = chosen.count(self.connection)?;
        if affected.total() == 0 {
            return Ok(affected);
        }
        let now: &[(&str, &dyn ToSql)] = &[(":now", &self.now)];
        match action {
            Action::Suspend => chosen.execute(self.connection, SUSPEND, now)?,
            Action::Resume => chosen.execute(self.connection, RESUME, now)?,
            Action::RunNow => chosen.execute(self.connection, RUN_NOW, now)?,
            Action::Change(change) => self.change(&chosen, change)?,
            Action::Retry { spread, .. } => retry::run(&chosen, self.connection, part, *spread, self.now)?,
            Action::Cancel => {
                // The permits of a running job stay taken until its handler has ended, so they are transferred before the row is deleted.
                chosen.execute(self.connection, TRANSFER_PERMITS, &[])?;
                self.remove(&chosen, HistoryOutcome::Cancelled)?;
            }
            Action::Delete => self.remove(&chosen, HistoryOutcome::Deleted)?,
        }
        Ok(affected)
    }

    fn remove(&self, chosen: &Filter, ending: HistoryOutcome) -> rusqlite::Result<()> {
        let (keep, now) = (self.keep, self.now);
        if (Memory { keep, now }).keeps(ending) {
            let values: [(&str, &dyn ToSql); 2] = [(":outcome", &ending.as_str()), (":now", &now)];
            chosen.execute(self.connection, &remember_where("{filter}"), &values)?;
        }
        chosen.execute(self.connection, REMOVE, &[])
    }

    fn change(&self, chosen: &Filter, change: &Change) -> rusqlite::Result<()> {
        let due_at = match change.due {
            Some(DueChange::At(at)) => Some(at.as_microsecond()),
            Some(DueChange::In(delay)) => Some(self.now.saturating_add(micros(delay))),
            None => None,
        };
        let rank = change.priority.map(|priority| -priority);
        chosen.execute(
            self.connection,
            &CHANGE.replace("{moved}", if change.moves() { MOVED } else { "" }),
            &[
                (":now", &self.now),
                (":to_rank", &rank),
                (":to_queue", &change.queue),
                (":to_attempts", &change.max_attempts),
                (":to_due", &due_at),
            ],
        )
    }
}
