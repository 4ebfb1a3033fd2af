//! A filter of jobs in the form that the statements take, and the counts with which they answer.

use std::collections::BTreeMap;

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::rows;
use super::types::JsonString;
use crate::error::Result;
use crate::store::{AffectedJobs, JobFilter};

/// A filter in the form that the statements take.
pub(super) struct Filter<'a> {
    pub(super) ids: Option<Vec<Uuid>>,
    states: Option<Vec<&'static str>>,
    asked: &'a JobFilter,
    /// Created since and until, dead since and until.
    times: [Option<Timestamp>; 4],
    /// Fields that the job's options must contain.
    options: Option<JsonString>,
}

impl<'a> From<&'a JobFilter> for Filter<'a> {
    fn from(filter: &'a JobFilter) -> Self {
        Self {
            ids: filter.ids.as_ref().map(|ids| ids.iter().map(|id| *id.as_uuid()).collect()),
            states: filter.states.as_ref().map(|states| states.iter().map(|state| state.as_str()).collect()),
            asked: filter,
            times: [filter.created.since, filter.created.until, filter.dead.since, filter.dead.until].map(rows::moment),
            options: options(filter),
        }
    }
}

/// Returns the filter's demands on a job's options, as an object that the options must contain.
fn options(filter: &JobFilter) -> Option<JsonString> {
    let asked = [("tenant", &filter.tenant), ("group", &filter.group), ("limit", &filter.limit_key)];
    let asked: BTreeMap<_, _> = asked.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))).collect();
    (!asked.is_empty()).then(|| JsonString(serde_json::json!(asked).to_string()))
}

impl Filter<'_> {
    /// Returns the parameters of a statement: the filter's first, then its own.
    pub(super) fn params<'p>(&'p self, own: &[&'p (dyn ToSql + Sync)]) -> Vec<&'p (dyn ToSql + Sync)> {
        let JobFilter { queue, kind, error, .. } = self.asked;
        let [sent_since, sent_until, dead_since, dead_until] = &self.times;
        let filter: [&(dyn ToSql + Sync); 10] = [
            &self.ids,
            &self.states,
            queue,
            kind,
            error,
            sent_since,
            sent_until,
            dead_since,
            dead_until,
            &self.options,
        ];
        filter.into_iter().chain(own.iter().copied()).collect()
    }
}

/// Reads states with their counts.
pub(super) fn affected(rows: &[Row]) -> Result<AffectedJobs> {
    let mut affected = AffectedJobs::default();
    for row in rows {
        let count: i64 = rows::get(row, "count")?;
        if count > 0 {
            affected.0.insert(rows::get::<&str>(row, "state")?.parse()?, count.unsigned_abs());
        }
    }
    Ok(affected)
}
