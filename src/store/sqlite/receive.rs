//! Jobs that third-party producers submit.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, named_params};

use super::error::Work;
use super::insert::insert;
use super::rows::{Micros, count, micros};
use super::shared::Shared;
use super::unique::id_exists;
use crate::error::{Error, ErrorKind, Result};
use crate::job::Submission;
use crate::store::Received;
use crate::store::broker::{SubmissionRecord, judge};

const SUBMISSION_DIGEST: &str = include_str!("sql/submission_digest.sql");
const REMEMBER_SUBMISSION: &str = include_str!("sql/remember_submission.sql");
const PRUNE_SUBMISSIONS: &str = include_str!("sql/prune_submissions.sql");

impl Shared {
    pub(super) async fn receive(&self, submissions: &[Submission]) -> Result<Vec<Received>> {
        if submissions.is_empty() {
            return Ok(Vec::new());
        }
        let submissions = submissions.to_vec();
        self.write("store submissions", move |connection, now| {
            let mut records = HashMap::with_capacity(submissions.len());
            for submission in &submissions {
                if let Entry::Vacant(first) = records.entry(submission.message.id) {
                    first.insert(record(connection, submission, now)?);
                }
            }
            let answers = judge(&submissions, &records, &HashMap::new());
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

/// Returns the record of a submission, and stores the submission if there is none.
fn record(connection: &Connection, submission: &Submission, now: Micros) -> Work<SubmissionRecord> {
    let Submission { message, digest } = submission;
    let id = *message.id.as_uuid();
    let known = connection
        .prepare_cached(SUBMISSION_DIGEST)?
        .query_row(named_params! { ":id": id.as_bytes() }, |row| row.get::<_, [u8; 32]>(0))
        .optional()?;
    if let Some(digest) = known {
        return Ok(SubmissionRecord { stored: false, digest });
    }
    connection
        .prepare_cached(REMEMBER_SUBMISSION)?
        .execute(named_params! { ":id": id.as_bytes(), ":digest": digest, ":now": now })?;
    let stored =
        !id_exists(connection, message.id)? && insert(connection, std::slice::from_ref(message), None, now)?.rows == 1;
    Ok(SubmissionRecord { stored, digest: *digest })
}
