//! Puts jobs in, and tells executors of them.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, named_params};

use super::claim::is_alive;
use super::database::Sqlite;
use super::error::Work;
use super::new_row::{NewRow, write_many};
use super::rows;
use super::{hints, unique};
use crate::error::Result;
use crate::job::{JobId, JobMessage, Submission};
use crate::store::sections::section;
use crate::store::{Enqueue, FullQueue, Hint, HintStream, Inserted, Preclaim, Received};

const SQL: &str = include_str!("insert.sql");
const TAKE_NUMBERS: &str = section(SQL, "take_numbers");
const UNHIDE: &str = section(SQL, "unhide");

#[async_trait]
impl Enqueue for Sqlite {
    async fn insert(&self, messages: &[JobMessage], owned: Option<&Preclaim>) -> Result<Inserted> {
        if messages.is_empty() {
            return Ok(Inserted::default());
        }
        let (messages, owned) = (messages.to_vec(), owned.cloned());
        self.0
            .write("insert job messages", move |connection, now| insert(connection, &messages, owned.as_ref(), now))
            .await
    }

    async fn receive(&self, submissions: &[Submission]) -> Result<Vec<Received>> {
        self.0.receive(submissions).await
    }

    async fn full(&self, queues: &[&str]) -> Result<Vec<FullQueue>> {
        self.0.full(queues).await
    }

    async fn unhide(&self, ids: &[JobId]) -> Result<Vec<String>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let ids = ids.to_vec();
        self.0
            .write("end the head start of deliveries", move |connection, _| {
                let mut statement = connection.prepare_cached(UNHIDE)?;
                let mut queues = BTreeSet::new();
                for id in ids {
                    let params = named_params! { ":id": id.as_uuid().as_bytes() };
                    queues.extend(statement.query_row(params, |row| row.get::<_, String>(0)).optional()?);
                }
                Ok(queues.into_iter().collect())
            })
            .await
    }

    /// Does nothing: listeners detect the commit themselves.
    async fn notify(&self, _hints: &[Hint]) -> Result<()> {
        Ok(())
    }

    async fn listen(&self) -> Result<Option<Box<dyn HintStream>>> {
        let versions = hints::Versions::listen(Arc::clone(&self.0)).await?;
        Ok(Some(Box::new(versions)))
    }
}

/// Inserts within a transaction that may go on: after an error nothing of the insert is left.
pub(super) fn insert_batched(
    connection: &Connection,
    messages: &[JobMessage],
    owned: Option<&Preclaim>,
    now: i64,
) -> Work<Inserted> {
    if messages.is_empty() {
        return Ok(Inserted::default());
    }
    connection.execute_batch("savepoint jobwright_insert")?;
    match insert(connection, messages, owned, now) {
        Ok(inserted) => {
            connection.execute_batch("release jobwright_insert")?;
            Ok(inserted)
        }
        Err(failure) => {
            // If SQLite rolled back the whole transaction, the savepoint is gone. The first error is the one that matters.
            let _ = connection.execute_batch("rollback to jobwright_insert; release jobwright_insert");
            Err(failure)
        }
    }
}

pub(super) fn insert(
    connection: &Connection,
    messages: &[JobMessage],
    owned: Option<&Preclaim>,
    now: i64,
) -> Work<Inserted> {
    // Takes the numbers first: that is a write, so a caller's deferred transaction gets the write lock before it reads anything.
    let first = take_numbers(connection, "job", messages.len())?;
    let known = unique::known_ids(connection, messages)?;
    let taken = unique::take(connection, messages, &known, now)?;
    let owned = match owned {
        Some(owned) if is_alive(connection, owned.node)? => Some(owned),
        _ => None,
    };
    let mut inserted = Inserted { duplicates: taken.duplicates, ..Inserted::default() };
    let mut given = HashSet::new();
    // Rows that need no check of their own.
    let mut plain = Vec::new();
    for (seq, (position, message)) in (first..).zip(messages.iter().enumerate()) {
        // The same id twice in a flush is one job.
        if message.id_given && !given.insert(message.id) {
            continue;
        }
        if known.contains(&message.id) {
            inserted.known.push(message.id);
            continue;
        }
        if taken.skip.contains(&position) {
            continue;
        }
        let owner = owned.filter(|owned| owned.ids.contains(&message.id)).map(|owned| (owned.node, owned.claim));
        let mut row = NewRow { message, seq, now, owner };
        if row.owner.is_some() && row.is_covered(connection)? {
            row.owner = None;
        }
        if row.is_plain() {
            plain.push(row);
            continue;
        }
        inserted.rows += u64::from(row.write(connection, &mut inserted.owned)?);
    }
    let (written, rest) = write_many(connection, &plain)?;
    inserted.rows += written;
    for row in rest {
        inserted.rows += u64::from(row.write(connection, &mut inserted.owned)?);
    }
    Ok(inserted)
}

/// Takes `count` consecutive numbers and returns the first. They are never used again, unless the transaction is rolled back.
fn take_numbers(connection: &Connection, name: &str, count: usize) -> rusqlite::Result<i64> {
    let count = rows::count(count);
    let mut statement = connection.prepare_cached(TAKE_NUMBERS)?;
    let last: i64 = statement.query_row(named_params! { ":name": name, ":count": count }, |row| row.get(0))?;
    Ok(last - count + 1)
}
