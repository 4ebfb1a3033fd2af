//! Lists jobs, and builds the statements that operators run on them.

use std::fmt::Write as _;

use jiff::Timestamp;
use rusqlite::{Connection, Statement, ToSql, named_params};

use super::Inner;
use super::failure::Work;
use super::history::SourceTable;
use super::rows::{Micros, count, detail, id_list, summary};
use crate::error::Result;
use crate::job::JobId;
use crate::store::{AffectedJobs, HistoryOutcome, JobDetail, JobFilter, JobState, JobSummary, Page};

const LIST: &str = include_str!("sql/list.sql");
const SHOW: &str = include_str!("sql/show.sql");
const COUNT: &str = include_str!("sql/count.sql");
pub(super) const REMOVE: &str = include_str!("sql/remove.sql");

/// Returns where the jobs of a state are: their table, and a condition on its rows.
fn place(state: JobState) -> (&'static str, &'static str) {
    match state {
        JobState::Waiting => ("jobwright_job", "lock_owner is null"),
        JobState::Blocked => ("jobwright_blocked_job", "true"),
        JobState::Running => ("jobwright_job", "lock_owner is not null"),
        JobState::External => ("jobwright_external_job", "true"),
        JobState::Timer => ("jobwright_timer_job", "true"),
        JobState::Suspended => ("jobwright_suspended_job", "true"),
        JobState::Dead => ("jobwright_dead_letter_job", "true"),
    }
}

/// A filter as SQL. The statement contains only the conditions that are set, so that an index can serve them.
pub(super) struct Chosen {
    pub(super) states: Vec<JobState>,
    clause: String,
    /// See [`id_list`].
    ids: Option<String>,
    filter: JobFilter,
}

impl Chosen {
    /// Builds the conditions for the jobs that the filter selects among these states.
    pub(super) fn new(filter: &JobFilter, among: &[JobState]) -> Self {
        let wanted = |state: &JobState| filter.states.as_ref().is_none_or(|states| states.contains(state));
        let mut clause = String::new();
        let ids = filter.ids.as_ref().map(|ids| {
            clause.push_str(" and id in (select unhex(value) from json_each(:ids))");
            id_list(ids)
        });
        if filter.queue.is_some() {
            clause.push_str(" and queue = :queue");
        }
        if filter.kind.is_some() {
            clause.push_str(" and kind = :kind");
        }
        for (name, value) in [("tenant", &filter.tenant), ("group", &filter.group), ("limit", &filter.limit_key)] {
            if value.is_some() {
                let _ = write!(clause, " and options ->> '{name}' = :{name}_term");
            }
        }
        if filter.error.is_some() {
            clause.push_str(" and instr(errors ->> '$[#-1].error', :error) > 0");
        }
        for (column, range) in [("created", &filter.created), ("dead", &filter.dead)] {
            if range.since.is_some() {
                let _ = write!(clause, " and {column}_at >= :{column}_since");
            }
            if range.until.is_some() {
                let _ = write!(clause, " and {column}_at < :{column}_until");
            }
        }
        // A job that is alive matches no range of death times.
        let died = |state: &JobState| *state == JobState::Dead || !filter.dead.is_limited();
        let states = among.iter().copied().filter(wanted).filter(died).collect();
        Self { states, clause, ids, filter: filter.clone() }
    }

    /// Returns the statement for one state.
    pub(super) fn sql(&self, template: &str, state: JobState) -> String {
        let (table, rows) = place(state);
        template.replace("{filter}", &format!("{rows}{}", self.clause)).replace("{table}", table)
    }

    /// Binds the filter's values that the statement uses.
    pub(super) fn bind(&self, statement: &mut Statement<'_>) -> rusqlite::Result<()> {
        let JobFilter { queue, kind, tenant, group, limit_key, error, created, dead, .. } = &self.filter;
        let micros = |moment: Option<Timestamp>| moment.map(Timestamp::as_microsecond);
        let values: [(&str, &dyn ToSql); 11] = [
            (":ids", &self.ids),
            (":queue", queue),
            (":kind", kind),
            (":tenant_term", tenant),
            (":group_term", group),
            (":limit_term", limit_key),
            (":error", error),
            (":created_since", &micros(created.since)),
            (":created_until", &micros(created.until)),
            (":dead_since", &micros(dead.since)),
            (":dead_until", &micros(dead.until)),
        ];
        for (name, value) in values {
            if let Some(index) = statement.parameter_index(name)? {
                statement.raw_bind_parameter(index, value)?;
            }
        }
        Ok(())
    }

    pub(super) fn execute(&self, connection: &Connection, template: &str, state: JobState) -> rusqlite::Result<u64> {
        self.execute_with(connection, template, state, &[])
    }

    /// Like [`execute`](Self::execute), and also binds the given values that the statement uses.
    pub(super) fn execute_with(
        &self,
        connection: &Connection,
        template: &str,
        state: JobState,
        values: &[(&str, &dyn ToSql)],
    ) -> rusqlite::Result<u64> {
        let mut statement = connection.prepare_cached(&self.sql(template, state))?;
        self.bind(&mut statement)?;
        for (name, value) in values {
            if let Some(index) = statement.parameter_index(name)? {
                statement.raw_bind_parameter(index, value)?;
            }
        }
        Ok(statement.raw_execute()? as u64)
    }

    /// Records the jobs of a state in the history, before they are removed.
    pub(super) fn remember(
        &self,
        connection: &Connection,
        state: JobState,
        ending: HistoryOutcome,
        now: Micros,
    ) -> rusqlite::Result<()> {
        let (table, rows) = place(state);
        let sql = SourceTable::of(table).remember(&format!("{rows}{}", self.clause));
        let mut statement = connection.prepare_cached(&sql)?;
        self.bind(&mut statement)?;
        let values: [(&str, &dyn ToSql); 2] = [(":outcome", &ending.as_str()), (":now", &now)];
        for (name, value) in values {
            if let Some(index) = statement.parameter_index(name)? {
                statement.raw_bind_parameter(index, value)?;
            }
        }
        statement.raw_execute().map(drop)
    }

    /// Counts the jobs of each state. States without jobs are left out.
    pub(super) fn count(&self, connection: &Connection) -> Work<AffectedJobs> {
        self.operate(|state| {
            let mut statement = connection.prepare_cached(&self.sql(COUNT, state))?;
            self.bind(&mut statement)?;
            let mut rows = statement.raw_query();
            let number: Option<i64> = rows.next()?.map(|row| row.get(0)).transpose()?;
            Ok(number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0))
        })
    }

    pub(super) fn operate(&self, mut each: impl FnMut(JobState) -> rusqlite::Result<u64>) -> Work<AffectedJobs> {
        let mut affected = AffectedJobs::default();
        for state in &self.states {
            let number = each(*state)?;
            if number > 0 {
                affected.0.insert(*state, number);
            }
        }
        Ok(affected)
    }

    fn list(
        &self,
        connection: &Connection,
        state: JobState,
        after: i64,
        limit: i64,
    ) -> rusqlite::Result<Vec<JobSummary>> {
        let [due_at, owner, claimed_at] = match state {
            JobState::Running => ["null", "lock_owner", "claimed_at"],
            JobState::Timer | JobState::Suspended => ["due_at", "null", "null"],
            _ => ["null"; 3],
        };
        let mut sql = self
            .sql(LIST, state)
            .replace("{due_at}", due_at)
            .replace("{owner}", owner)
            .replace("{claimed_at}", claimed_at);
        // Owned rows are few: through the primary key, the statement would have to find them among a million waiting ones.
        if state == JobState::Running && self.ids.is_none() {
            sql = sql.replace("from jobwright_job", "from jobwright_job indexed by jobwright_job_owned");
        }
        let mut statement = connection.prepare_cached(&sql)?;
        self.bind(&mut statement)?;
        for (name, value) in [(":after", after), (":limit", limit)] {
            if let Some(index) = statement.parameter_index(name)? {
                statement.raw_bind_parameter(index, value)?;
            }
        }
        statement.raw_query().mapped(|row| summary(row, state)).collect()
    }
}

impl Inner {
    pub(super) async fn list(&self, filter: &JobFilter, page: &Page) -> Result<Vec<JobSummary>> {
        let chosen = Chosen::new(filter, JobState::ALL);
        let (after, limit) = (page.after.unwrap_or(i64::MIN), page.limit);
        self.query("list jobs", move |connection, _| {
            let mut all = Vec::new();
            for state in &chosen.states {
                all.extend(chosen.list(connection, *state, after, count(limit))?);
            }
            all.sort_by_key(|job| job.seq);
            all.truncate(limit);
            Ok(all)
        })
        .await
    }

    pub(super) async fn show(&self, id: JobId) -> Result<Option<JobDetail>> {
        self.query("show a job", move |connection, _| {
            let mut statement = connection.prepare_cached(SHOW)?;
            let mut found = statement.query_map(named_params! { ":id": id.as_uuid().as_bytes() }, detail)?;
            Ok(found.next().transpose()?)
        })
        .await
    }
}
