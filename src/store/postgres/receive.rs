//! What foreign producers submit.
//!
//! As a rule one statement: it remembers the ids and stores the jobs of those it had not seen. Only if it had seen some, a second
//! one asks which messages they were.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::insert::{Columns, Texts};
use super::{Shared, rows};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{JobId, JobMessage, Submission};
use crate::store::Received;
use crate::store::broker::{Record, judge};

pub(super) async fn receive(shared: &Arc<Shared>, submissions: &[Submission]) -> Result<Vec<Received>> {
    if submissions.is_empty() {
        return Ok(Vec::new());
    }
    let mut records = store_first(shared, submissions).await?;
    let seen: Vec<Uuid> = submissions
        .iter()
        .map(|submission| submission.message.id)
        .filter(|id| !records.contains_key(id))
        .map(JobId::into)
        .collect();
    if !seen.is_empty() {
        let rows = shared.engine("look up submissions", &shared.sql.submission_digests, &[&seen]).await?;
        for row in &rows {
            let digest: &[u8] = rows::get(row, 1)?;
            let record = Record { stored: false, digest: digest.try_into().unwrap_or_default() };
            records.insert(JobId::from(rows::get::<Uuid>(row, 0)?), record);
        }
    }
    judge(submissions, &records).ok_or_else(|| {
        Error::new(
            ErrorKind::Busy,
            format!("can't receive submissions on {}: one was forgotten while it came again; try again", shared.place),
        )
    })
}

/// Stores the first submission of each id. Returns what is on record for those that were not seen before.
async fn store_first(shared: &Arc<Shared>, submissions: &[Submission]) -> Result<HashMap<JobId, Record>> {
    let mut firsts: HashMap<JobId, [u8; 32]> = HashMap::with_capacity(submissions.len());
    let mut messages: Vec<JobMessage> = Vec::with_capacity(submissions.len());
    for Submission { message, digest } in submissions {
        if let Entry::Vacant(free) = firsts.entry(message.id) {
            free.insert(*digest);
            messages.push(message.clone());
        }
    }
    let texts = Texts::new(&messages);
    let columns = Columns::new(&messages, &texts, None, &HashSet::new());
    let digests: Vec<&[u8]> = messages.iter().map(|message| firsts[&message.id].as_slice()).collect();
    let mut params: Vec<&(dyn ToSql + Sync)> = columns.general();
    params.push(&digests);
    params.push(columns.terms());
    // May be repeated: what it has stored already is then known.
    let rows = shared.engine("store submissions", &shared.sql.receive, &params).await?;
    rows.iter()
        .map(|row| {
            let id = JobId::from(rows::get::<Uuid>(row, 0)?);
            let digest = firsts.get(&id).copied().unwrap_or_default();
            Ok((id, Record { stored: rows::get(row, 1)?, digest }))
        })
        .collect()
}

pub(super) async fn prune(shared: &Arc<Shared>, age: Duration, limit: usize) -> Result<u64> {
    let age = rows::micros(age);
    let rows =
        shared.engine("forget old submissions", &shared.sql.prune_submissions, &[&age, &rows::count(limit)]).await?;
    Ok(rows::get::<i64>(rows::single(&rows)?, 0)?.unsigned_abs())
}
