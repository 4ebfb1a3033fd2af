//! A filter of jobs as SQL.

use std::fmt::Write as _;

use jiff::Timestamp;
use rusqlite::{Connection, Row, Statement, ToSql};

use super::error::Work;
use super::rows::id_list;
use crate::store::sections::section;
use crate::store::{AffectedJobs, JobFilter, JobState};

const SQL: &str = include_str!("filter.sql");
const COUNT: &str = section(SQL, "count");

/// Returns the condition of a state, and the index to use if no ids are given. Without it SQLite might look for a few rows in the order of `seq`,
/// among a million waiting ones.
fn place(state: JobState) -> (&'static str, &'static str) {
    match state {
        JobState::Running => ("lock_owner is not null", " indexed by jobwright_job_owned"),
        JobState::External => ("lease_until is not null", " indexed by jobwright_job_lease"),
        JobState::Waiting => ("state = 'waiting'", ""),
        JobState::Timer => ("state = 'timer'", ""),
        JobState::Blocked => ("state = 'blocked'", ""),
        JobState::Suspended => ("state = 'suspended'", ""),
        JobState::Dead => ("state = 'dead'", ""),
    }
}

/// A filter as SQL. The statement contains only the conditions that are set, so that an index can serve them.
pub(super) struct Filter {
    states: Vec<JobState>,
    clause: String,
    /// See [`id_list`].
    ids: Option<String>,
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

    /// Returns the condition on jobs of all its states, for a filter that names ids.
    fn condition(&self) -> String {
        let states: Vec<String> = self.states.iter().map(|state| format!("'{state}'")).collect();
        format!("state in ({}){}", states.join(", "), self.clause)
    }

    /// Returns a query that has one arm for each state, so that the index of that state can serve it; `None` if there is no state. The template names
    /// the condition (`{filter}`) and may name the state.
    pub(super) fn arms(&self, template: &str) -> Option<String> {
        let arm = |state: &JobState| {
            let (condition, index) = place(*state);
            // Jobs that are named are found by their ids: the sign keeps the planner from an index of their states, which is read as a whole.
            let (sign, index) = if self.ids.is_none() { ("", index) } else { ("+", "") };
            template
                .replace("{filter}", &format!("{sign}{condition}{}", self.clause))
                .replace("{state}", state.as_str())
                .replace("from jobwright_job", &format!("from jobwright_job{index}"))
        };
        let arms: Vec<String> = self.states.iter().map(arm).collect();
        (!arms.is_empty()).then(|| arms.join("\nunion all\n"))
    }

    /// Runs a query with an arm for each state, and then `rest`, and reads its rows.
    pub(super) fn query<T>(
        &self,
        connection: &Connection,
        (arm, rest): (&str, &str),
        values: &[(&str, &dyn ToSql)],
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        let Some(arms) = self.arms(arm) else { return Ok(Vec::new()) };
        let mut statement = connection.prepare_cached(&format!("{arms}\n{rest}"))?;
        self.bind(&mut statement, values)?;
        statement.raw_query().mapped(read).collect()
    }

    /// Runs a statement on the jobs of all its states. The template names the condition (`{filter}`).
    pub(super) fn execute(
        &self,
        connection: &Connection,
        template: &str,
        values: &[(&str, &dyn ToSql)],
    ) -> rusqlite::Result<()> {
        if self.states.is_empty() {
            return Ok(());
        }
        let mut statement = connection.prepare_cached(&template.replace("{filter}", &self.condition()))?;
        self.bind(&mut statement, values)?;
        statement.raw_execute().map(drop)
    }

    /// Counts the jobs of each state. States without jobs are left out.
    pub(super) fn count(&self, connection: &Connection) -> Work<AffectedJobs> {
        let read = |row: &Row<'_>| Ok((row.get::<_, String>("state")?, row.get::<_, i64>("jobs")?));
        let mut affected = AffectedJobs::default();
        for (state, jobs) in self.query(connection, (COUNT, ""), &[], read)? {
            if jobs > 0 {
                affected.0.insert(state.parse()?, jobs.unsigned_abs());
            }
        }
        Ok(affected)
    }

    /// Binds the filter's values and others, those that the statement uses.
    fn bind(&self, statement: &mut Statement<'_>, others: &[(&str, &dyn ToSql)]) -> rusqlite::Result<()> {
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
        for (name, value) in values.iter().chain(others) {
            if let Some(index) = statement.parameter_index(name)? {
                statement.raw_bind_parameter(index, value)?;
            }
        }
        Ok(())
    }
}
