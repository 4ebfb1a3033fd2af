//! What operators see of jobs: lists and details.

use rusqlite::named_params;

use super::filter::Filter;
use super::rows::{count, detail, summary};
use super::shared::Shared;
use super::statements::{Statement, statement};
use crate::error::Result;
use crate::job::JobId;
use crate::store::sections::section;
use crate::store::{JobDetail, JobFilter, JobState, JobSummary, Page};

const SQL: &str = include_str!("admin.sql");
const LIST: &str = section(SQL, "list");
const LIST_ALL: &str = section(SQL, "list_all");
static SHOW: Statement = statement!(SQL, "show");

impl Shared {
    pub(super) async fn list(&self, filter: &JobFilter, page: &Page) -> Result<Vec<JobSummary>> {
        let chosen = Filter::new(filter, JobState::ALL);
        let (after, limit) = (page.after.unwrap_or(i64::MIN), count(page.limit));
        self.query("list jobs", move |connection, _| {
            let values = named_params! { ":after": after, ":limit": limit };
            Ok(chosen.query(connection, (LIST, LIST_ALL), values, summary)?)
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
