//! Jobs that third-party producers submit.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, named_params};

use super::error::Work;
use super::insert::insert;
use super::rows::{Micros, count, micros};
use super::shared::Shared;
use super::unique::{KnownAs, known_as};
use crate::error::{Error, ErrorKind, Result};
use crate::job::Submission;
use crate::store::Received;
use crate::store::broker::{SubmissionRecord, judge};
use crate::store::sections::section;

const SQL: &str = include_str!("receive.sql");
const SUBMISSION_DIGEST: &str = section(SQL, "submission_digest");
const REMEMBER_SUBMISSION: &str = section(SQL, "remember_submission");
const PRUNE_SUBMISSIONS: &str = section(SQL, "prune_submissions");

impl Shared {
    pub(super) async fn receive(&self, submissions: &[Submission]) -> Result<Vec<Received>> {
        if submissions.is_empty() {
            return Ok(Vec::new());
        }
        let submissions = submissions.to_vec();
        self.write("store submissions", move |connection, now| {
            let mut records = HashMap::with_capacity(submissions.len());
            let mut others = HashSet::new();
            for submission in &submissions {
                let id = submission.message.id;
                if let Entry::Vacant(first) = records.entry(id)
                    && !others.contains(&id)
                {
                    match record(connection, submission, now)? {
                        Some(record) => drop(first.insert(record)),
                        None => drop(others.insert(id)),
                    }
                }
            }
            let answers = judge(&submissions, &records, &HashMap::new(), &others);
            answers.ok_or_else(|| Error::new(ErrorKind::Database, "a submission is on no record").into())
        })
        .await
    }

    pub(super) async fn prune_submissions(&self, age: Duration, limit: usize) -> Result<u64> {
        self.write("forget old submissions", move |connection, now| {
            let params = named_params! { ":before": now.saturating_sub(micros(age)), ":limit": count(limit) };
            Ok(connection.prepare_cached(PRUNE_SUBMISSIONS)?.execute(params)? as u64)
        })
        .await
    }
}

/// Returns the record of a submission, and stores the submission if there is none. `None`: its id is that of another job.
fn record(connection: &Connection, submission: &Submission, now: Micros) -> Work<Option<SubmissionRecord>> {
    let Submission { message, digest } = submission;
    let id = *message.id.as_uuid();
    let known = connection
        .prepare_cached(SUBMISSION_DIGEST)?
        .query_row(named_params! { ":id": id.as_bytes() }, |row| row.get::<_, [u8; 32]>(0))
        .optional()?;
    if let Some(digest) = known {
        return Ok(Some(SubmissionRecord { stored: false, digest }));
    }
    let known = known_as(connection, message)?;
    if matches!(known, Some(KnownAs::Other(_))) {
        return Ok(None);
    }
    connection
        .prepare_cached(REMEMBER_SUBMISSION)?
        .execute(named_params! { ":id": id.as_bytes(), ":digest": digest, ":now": now })?;
    let stored = known.is_none() && insert(connection, std::slice::from_ref(message), None, now)?.rows == 1;
    Ok(Some(SubmissionRecord { stored, digest: *digest }))
}
