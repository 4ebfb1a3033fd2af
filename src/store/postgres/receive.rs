//! Jobs that third-party producers submit.
//!
//! Usually one statement suffices: it records the ids and stores the jobs whose ids are new. Only if some ids were known, a second
//! statement looks up which messages they belong to.
//!
//! A transaction of an application, or a prepared one, may hold an id or a unique key for hours without saying whether it keeps it. The message
//! that needs it is found by halving, and the others are stored. Nothing here waits for such a transaction for long.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::client::Params;
use super::columns::{GivenIds, MessageColumns, Texts, other_jobs};
use super::lock_holder::joined;
use super::rows;
use super::shared::Shared;
use super::transaction::PgTransaction;
use crate::error::{Error, ErrorKind, Result};
use crate::job::{JobId, JobMessage, Submission};
use crate::store::broker::{SubmissionRecord, judge, waits_behind};
use crate::store::{Received, UnitOfWork};

/// How long the first statement waits for a lock, in milliseconds. Other executors that store the same ids hold theirs for less.
const LOCK_TIMEOUT: &str = "200";
/// How long a statement waits that looks for the message to blame.
const LOOKING: &str = "20";
/// How long one message to blame is let wait once more, after all others, while the holder of the lock is looked for.
const LAST: &str = "1000";
/// The statements that may wait for it.
const WAITING: [&str; 6] = ["receive", "remember_submissions", "take_unique", "known_ids", "lock_ids", "insert_any"];
/// How long before each look for it. On a busy machine the statement that is to wait has not come to the lock at the first.
const LOOK: Duration = Duration::from_millis(50);

/// Messages by whether they ask for a unique key.
#[derive(Clone, Copy)]
enum Sort {
    Plain,
    Unique,
}

/// The records of a batch.
#[derive(Default)]
struct Records {
    known: HashMap<JobId, SubmissionRecord>,
    /// Ids of other jobs, which were sent without the broker. Unless there is a record of the id, the message is refused.
    others: HashSet<JobId>,
    /// Messages that another transaction has to decide about first.
    aside: Vec<JobMessage>,
    /// The transaction that one of them waits for, if it was found.
    held_by: Option<String>,
}

/// What was stored at once: the records of new ids, and the ids of other jobs.
#[derive(Default)]
struct StoredPart {
    new: Vec<(JobId, SubmissionRecord)>,
    others: Vec<JobId>,
}

impl Records {
    fn add(&mut self, stored: StoredPart) {
        self.known.extend(stored.new);
        self.others.extend(stored.others);
    }

    /// Sets a message aside if it needs the same as one that waits, or must not overtake it. Returns whether it does.
    fn waits_with_others(&mut self, message: &JobMessage) -> bool {
        let waits = self.aside.iter().any(|other| waits_behind(message, other));
        if waits {
            self.aside.push(message.clone());
        }
        waits
    }

    /// Returns the messages that wait, each with a description of the transaction that it waits for.
    fn undecided(&self) -> HashMap<JobId, String> {
        let held_by = self.held_by.clone().unwrap_or_else(|| joined(None));
        self.aside.iter().map(|message| (message.id, held_by.clone())).collect()
    }
}

pub(super) async fn receive(shared: &Arc<Shared>, submissions: &[Submission]) -> Result<Vec<Received>> {
    if submissions.is_empty() {
        return Ok(Vec::new());
    }
    let stored = store_first(shared, submissions).await?;
    let undecided = stored.undecided();
    let Records { known: mut records, others, .. } = stored;
    let seen: Vec<Uuid> = submissions
        .iter()
        .map(|submission| submission.message.id)
        .filter(|id| !records.contains_key(id) && !undecided.contains_key(id))
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
    judge(submissions, &records, &undecided, &others).ok_or_else(|| {
        Error::new(
            ErrorKind::Busy,
            format!("can't receive submissions on {}: one was forgotten while it came again; try again", shared.label),
        )
    })
}

/// Stores the first submission of each id. Returns the records of those that were new, and which of them have to wait.
async fn store_first(shared: &Arc<Shared>, submissions: &[Submission]) -> Result<Records> {
    let mut firsts: HashMap<JobId, [u8; 32]> = HashMap::with_capacity(submissions.len());
    let (mut plain, mut unique): (Vec<JobMessage>, Vec<JobMessage>) = (Vec::new(), Vec::new());
    for Submission { message, digest } in submissions {
        if let Entry::Vacant(free) = firsts.entry(message.id) {
            free.insert(*digest);
            if message.options.unique.is_some() { &mut unique } else { &mut plain }.push(message.clone());
        }
    }
    let mut records = Records { known: HashMap::with_capacity(firsts.len()), ..Records::default() };
    for (sort, messages) in [(Sort::Plain, plain), (Sort::Unique, unique)] {
        store_decided(shared, sort, messages, &firsts, &mut records).await?;
    }
    Ok(records)
}

/// Stores messages of one sort, but for those that wait for another transaction. Their order is kept.
async fn store_decided(
    shared: &Arc<Shared>,
    sort: Sort,
    messages: Vec<JobMessage>,
    firsts: &HashMap<JobId, [u8; 32]>,
    records: &mut Records,
) -> Result<()> {
    let mut lock_timeout = LOCK_TIMEOUT;
    let mut blamed = None;
    // A stack: the last entry is the next one.
    let mut todo = vec![messages];
    while let Some(mut part) = todo.pop() {
        // Those that need the same, or must not overtake it, wait with it.
        part.retain(|message| !records.waits_with_others(message));
        if part.is_empty() {
            continue;
        }
        match store(shared, sort, &part, firsts, lock_timeout).await {
            Ok(stored) => records.add(stored),
            Err(error) if error.is_undecided() && part.len() > 1 => {
                lock_timeout = LOOKING;
                let second = part.split_off(part.len() / 2);
                todo.extend([second, part]);
            }
            Err(error) if error.is_undecided() => {
                if blamed.is_none() {
                    blamed = part.first().cloned();
                }
                records.aside.append(&mut part);
            }
            Err(error) => return Err(error),
        }
    }
    match blamed {
        Some(message) if records.held_by.is_none() => look_for_holder(shared, sort, message, firsts, records).await,
        _ => Ok(()),
    }
}

/// Lets a message wait once more, and looks meanwhile for the transaction that it waits for.
async fn look_for_holder(
    shared: &Arc<Shared>,
    sort: Sort,
    message: JobMessage,
    firsts: &HashMap<JobId, [u8; 32]>,
    records: &mut Records,
) -> Result<()> {
    let id = message.id;
    let part = [message];
    let ended = AtomicBool::new(false);
    let storing = async {
        let stored = store(shared, sort, &part, firsts, LAST).await;
        ended.store(true, Ordering::Relaxed);
        stored
    };
    let looking = async {
        loop {
            tokio::time::sleep(LOOK).await;
            let found = shared.holders_of(&WAITING).await;
            if found.is_some() || ended.load(Ordering::Relaxed) {
                return found;
            }
        }
    };
    let (stored, holders) = tokio::join!(storing, looking);
    records.held_by = holders;
    match stored {
        Err(error) if error.is_undecided() => {}
        stored => {
            records.add(stored?);
            records.aside.retain(|message| message.id != id);
        }
    }
    Ok(())
}

async fn store(
    shared: &Arc<Shared>,
    sort: Sort,
    messages: &[JobMessage],
    firsts: &HashMap<JobId, [u8; 32]>,
    lock_timeout: &str,
) -> Result<StoredPart> {
    match sort {
        Sort::Plain => store_plain(shared, messages, firsts, lock_timeout).await,
        Sort::Unique => store_unique(shared, messages, firsts, lock_timeout).await,
    }
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
    lock_timeout: &str,
) -> Result<StoredPart> {
    let texts = Texts::new(messages);
    let mut stored = StoredPart { new: Vec::with_capacity(messages.len()), ..StoredPart::default() };
    for columns in MessageColumns::of_each(messages, &texts, None, &HashSet::new()) {
        let digests: Vec<&[u8]> = columns.ids().iter().map(|id| firsts[&JobId::from(*id)].as_slice()).collect();
        let mut params: Vec<&(dyn ToSql + Sync)> = columns.general();
        params.push(&digests);
        params.push(columns.options());
        params.push(&lock_timeout);
        // May be repeated: rows already stored then count as known.
        let answer = shared.engine("store submissions", &shared.sql.receive, &params).await?;
        let others: HashSet<JobId> = other_jobs(&answer)?.into_iter().map(|other| other.id).collect();
        for row in &answer {
            let id = JobId::from(rows::get::<Uuid>(row, "id")?);
            if !others.contains(&id) {
                let digest = firsts.get(&id).copied().unwrap_or_default();
                stored.new.push((id, SubmissionRecord { stored: rows::get(row, "stored")?, digest }));
            }
        }
        stored.others.extend(others);
    }
    Ok(stored)
}

/// Stores messages that ask for a key, in one transaction: records the submissions, takes the keys, then inserts the jobs that got theirs.
/// A key held by another job keeps the job out, and the submission counts as known.
async fn store_unique(
    shared: &Arc<Shared>,
    messages: &[JobMessage],
    firsts: &HashMap<JobId, [u8; 32]>,
    lock_timeout: &str,
) -> Result<StoredPart> {
    let mut transaction = PgTransaction::begin_engine(shared).await?;
    // Submissions always have an id of their own.
    let given = GivenIds::of(messages).unwrap_or_default();
    let [ids, kinds, queues] = given.params();
    let params: Params<'_> = &[ids, kinds, queues, &digests(messages, firsts), &lock_timeout];
    let rows = transaction.run("remember submissions", &shared.sql.remember_submissions, params).await?;
    let others: Vec<JobId> = other_jobs(&rows)?.into_iter().map(|other| other.id).collect();
    let mut novel = rows::job_ids(&rows)?.into_iter().collect::<HashSet<_>>();
    novel.retain(|id| !others.contains(id));
    let messages: Vec<JobMessage> = messages.iter().filter(|message| novel.contains(&message.id)).cloned().collect();
    if messages.is_empty() {
        transaction.rollback().await?;
        return Ok(StoredPart { others, ..StoredPart::default() });
    }
    let duplicates: HashSet<JobId> =
        transaction.insert(&messages, None).await?.duplicates.into_iter().map(|(id, _)| id).collect();
    transaction.commit().await?;
    let record = |id: JobId| SubmissionRecord { stored: !duplicates.contains(&id), digest: firsts[&id] };
    let new = messages.iter().map(|message| (message.id, record(message.id))).collect();
    Ok(StoredPart { new, others })
}
