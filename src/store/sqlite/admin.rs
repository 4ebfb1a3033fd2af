//! What operators see of jobs: lists and details.

use rusqlite::{Connection, named_params};

use super::filter::Filter;
use super::rows::{count, detail, summary};
use super::shared::Shared;
use super::statements::statement;
use crate::error::Result;
use crate::job::JobId;
use crate::store::{JobDetail, JobFilter, JobState, JobSummary, Page};

const LIST: &str = include_str!("sql/list.sql");
static SHOW: super::statements::Statement = statement!("sql/show.sql");

impl Filter {
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

impl Shared {
    pub(super) async fn list(&self, filter: &JobFilter, page: &Page) -> Result<Vec<JobSummary>> {
        let chosen = Filter::new(filter, JobState::ALL);
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
            let mut statement = connection.prepare_cached(&SHOW)?;
            let mut found = statement.query_map(named_params! { ":id": id.as_uuid().as_bytes() }, detail)?;
            Ok(found.next().transpose()?)
        })
        .await
    }
}
