//! A filter of jobs as SQL.

use std::fmt::Write as _;

use jiff::Timestamp;
use rusqlite::{Connection, Statement, ToSql};

use super::error::Work;
use super::history::SourceTable;
use super::rows::{Micros, id_list};
use crate::store::{AffectedJobs, HistoryOutcome, JobFilter, JobState};

const COUNT: &str = include_str!("sql/count.sql");

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
pub(super) struct Filter {
    pub(super) states: Vec<JobState>,
    clause: String,
    /// See [`id_list`].
    pub(super) ids: Option<String>,
    asked: JobFilter,
}

impl Filter {
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
        Self { states, clause, ids, asked: filter.clone() }
    }

    /// Returns the statement for one state.
    pub(super) fn sql(&self, template: &str, state: JobState) -> String {
        let (table, rows) = place(state);
        template.replace("{filter}", &format!("{rows}{}", self.clause)).replace("{table}", table)
    }

    /// Binds the filter's values that the statement uses.
    pub(super) fn bind(&self, statement: &mut Statement<'_>) -> rusqlite::Result<()> {
        let JobFilter { queue, kind, tenant, group, limit_key, error, created, dead, .. } = &self.asked;
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
}
