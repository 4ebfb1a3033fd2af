//! Jobs that third-party producers submit.
//!
//! Usually one statement suffices: it records the ids and stores the jobs whose ids are new. Only if some ids were known, a second
//! statement looks up which messages they belong to.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::client::Params;
use super::columns::{MessageColumns, Texts};
use super::rows;
use super::shared::Shared;
use super::transaction::PgTransaction;
use crate::error::{Error, ErrorKind, Result};
use crate::job::{JobId, JobMessage, Submission};
use crate::store::broker::{SubmissionRecord, judge};
use crate::store::{Received, UnitOfWork};

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
            let digest: &[u8] = rows::get(row, "digest")?;
            let record = SubmissionRecord { stored: false, digest: digest.try_into().unwrap_or_default() };
            records.insert(JobId::from(rows::get::<Uuid>(row, "id")?), record);
        }
    }
    judge(submissions, &records).ok_or_else(|| {
        Error::new(
            ErrorKind::Busy,
            format!("can't receive submissions on {}: one was forgotten while it came again; try again", shared.label),
        )
    })
}

/// Stores the first submission of each id. Returns the records of those that were new.
async fn store_first(shared: &Arc<Shared>, submissions: &[Submission]) -> Result<HashMap<JobId, SubmissionRecord>> {
    let mut firsts: HashMap<JobId, [u8; 32]> = HashMap::with_capacity(submissions.len());
    let (mut plain, mut unique): (Vec<JobMessage>, Vec<JobMessage>) = (Vec::new(), Vec::new());
    for Submission { message, digest } in submissions {
        if let Entry::Vacant(free) = firsts.entry(message.id) {
            free.insert(*digest);
            if message.options.unique.is_some() { &mut unique } else { &mut plain }.push(message.clone());
        }
    }
    let mut records = HashMap::with_capacity(firsts.len());
    if !plain.is_empty() {
        records.extend(store_plain(shared, &plain, &firsts).await?);
    }
    if !unique.is_empty() {
        records.extend(store_unique(shared, &unique, &firsts).await?);
    }
    Ok(records)
}

fn digests<'a>(messages: &[JobMessage], firsts: &'a HashMap<JobId, [u8; 32]>) -> Vec<&'a [u8]> {
    messages.iter().map(|message| firsts[&message.id].as_slice()).collect()
}

/// Stores messages that ask for no key: with one statement, or several if one would be too large. Each commits separately. One statement
/// locks its ids in order, but several in one transaction would not, and could deadlock.
async fn store_plain(
    shared: &Arc<Shared>,
    messages: &[JobMessage],
    firsts: &HashMap<JobId, [u8; 32]>,
) -> Result<Vec<(JobId, SubmissionRecord)>> {
    let texts = Texts::new(messages);
    let mut records = Vec::with_capacity(messages.len());
    for columns in MessageColumns::of_each(messages, &texts, None, &HashSet::new()) {
        let digests: Vec<&[u8]> = columns.ids().iter().map(|id| firsts[&JobId::from(*id)].as_slice()).collect();
        let mut params: Vec<&(dyn ToSql + Sync)> = columns.general();
        params.push(&digests);
        params.push(columns.options());
        // May be repeated: rows already stored then count as known.
        for row in &shared.engine("store submissions", &shared.sql.receive, &params).await? {
            let id = JobId::from(rows::get::<Uuid>(row, "id")?);
            let digest = firsts.get(&id).copied().unwrap_or_default();
            records.push((id, SubmissionRecord { stored: rows::get(row, "stored")?, digest }));
        }
    }
    Ok(records)
}

/// Stores messages that ask for a key, in one transaction: records the submissions, takes the keys, then inserts the jobs that got theirs.
/// A key held by another job keeps the job out, and the submission counts as known.
async fn store_unique(
    shared: &Arc<Shared>,
    messages: &[JobMessage],
    firsts: &HashMap<JobId, [u8; 32]>,
) -> Result<Vec<(JobId, SubmissionRecord)>> {
    let mut transaction = PgTransaction::begin_engine(shared).await?;
    let ids: Vec<Uuid> = messages.iter().map(|message| message.id.into()).collect();
    let params: Params<'_> = &[&ids, &digests(messages, firsts)];
    let rows = transaction.run("remember submissions", &shared.sql.remember_submissions, params).await?;
    let novel = rows::job_ids(&rows)?.into_iter().collect::<HashSet<_>>();
    let messages: Vec<JobMessage> = messages.iter().filter(|message| novel.contains(&message.id)).cloned().collect();
    if messages.is_empty() {
        transaction.rollback().await?;
        return Ok(Vec::new());
    }
    let duplicates: HashSet<JobId> =
        transaction.insert(&messages, None).await?.duplicates.into_iter().map(|(id, _)| id).collect();
    transaction.commit().await?;
    let record = |id: JobId| SubmissionRecord { stored: !duplicates.contains(&id), digest: firsts[&id] };
    Ok(messages.iter().map(|message| (message.id, record(message.id))).collect())
}

pub(super) async fn prune(shared: &Arc<Shared>, age: Duration, limit: usize) -> Result<u64> {
    let age = rows::micros(age);
    let rows =
        shared.engine("forget old submissions", &shared.sql.prune_submissions, &[&age, &rows::count(limit)]).await?;
    Ok(rows::get::<i64>(rows::single(&rows)?, 0)?.unsigned_abs())
}
