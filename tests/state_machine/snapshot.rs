//! The visible state of a store, in a form that can be compared between stores.

use std::collections::BTreeSet;

use jobwright::admin::{JobFilter, JobState, Page};
use jobwright::{JobId, NodeId};

use crate::support::Jobs;

/// The visible properties of a job, without times and numbers that a store draws itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) id: JobId,
    pub(crate) state: JobState,
    pub(crate) kind: String,
    pub(crate) queue: String,
    pub(crate) priority: i16,
    pub(crate) attempt: u32,
    pub(crate) max_attempts: u32,
    pub(crate) version: i64,
    /// The index of the owner among the nodes of this history.
    pub(crate) owner: Option<usize>,
    pub(crate) has_due_date: bool,
    pub(crate) errors: Vec<(u32, String)>,
    pub(crate) has_reason: bool,
    pub(crate) payload: String,
}

/// All jobs, in order.
pub(crate) type Snapshot = Vec<Seen>;

/// Returns the part of an error that is specified.
fn gist(error: &str) -> String {
    if error.starts_with("owner lost") { "owner lost".to_owned() } else { error.to_owned() }
}

/// Reads everything, page by page, and checks what must always hold. `nodes` are all nodes that ever existed.
pub(crate) async fn take(jobs: &Jobs, nodes: &[NodeId]) -> Result<Snapshot, String> {
    let mut rows = Vec::new();
    loop {
        let mut page = Page::new(7);
        page.after = rows.last().map(|row: &jobwright::admin::JobSummary| row.seq);
        let page = jobs.list(&JobFilter::default(), &page).await.map_err(|e| format!("{e:?}"))?;
        if page.is_empty() {
            break;
        }
        rows.extend(page);
    }
    if !rows.is_sorted_by(|a, b| a.seq < b.seq) {
        return Err(format!("seq is not an order: {rows:?}"));
    }
    let mut ids = BTreeSet::new();
    let mut snapshot = Vec::new();
    for row in rows {
        if !ids.insert(row.id) {
            return Err(format!("{} is in two states", row.id));
        }
        if row.attempt > row.max_attempts {
            return Err(format!("{} had attempt {} of {}", row.id, row.attempt, row.max_attempts));
        }
        let Some(detail) = jobs.show(row.id).await.map_err(|e| format!("{e:?}"))? else {
            return Err(format!("{} is listed but can't be shown", row.id));
        };
        if format!("{row:?}") != format!("{:?}", detail.summary) {
            return Err(format!("listed as {row:?}, shown as {:?}", detail.summary));
        }
        let owner = row.owner.map(|owner| nodes.iter().position(|node| *node == owner).unwrap_or(usize::MAX));
        snapshot.push(Seen {
            id: row.id,
            state: row.state,
            kind: row.kind,
            queue: row.queue,
            priority: row.priority,
            attempt: row.attempt,
            max_attempts: row.max_attempts,
            version: detail.version,
            owner,
            has_due_date: row.due_at.is_some(),
            errors: detail.errors.iter().map(|error| (error.attempt, gist(&error.error))).collect(),
            has_reason: detail.dead.is_some_and(|(_, reason)| !reason.is_empty()),
            // Parsed and written again: stores put different blanks into a document.
            payload: detail.payload.decode::<serde_json::Value>().map_err(|e| e.to_string())?.to_string(),
        });
    }
    Ok(snapshot)
}

/// Describes the difference.
pub(crate) fn difference(store: &Snapshot, oracle: &Snapshot) -> Option<String> {
    if store == oracle {
        return None;
    }
    let order = |snapshot: &Snapshot| snapshot.iter().map(|seen| seen.id).collect::<Vec<_>>();
    let wrong = store.iter().find_map(|seen| {
        let meant = oracle.iter().find(|meant| meant.id == seen.id)?;
        (seen != meant).then(|| format!("the store has\n{seen:#?}\nwhere the oracle has\n{meant:#?}"))
    });
    Some(wrong.unwrap_or_else(|| {
        format!("the store has the jobs\n{:#?}\nthe oracle has\n{:#?}", order(store), order(oracle))
    }))
}
