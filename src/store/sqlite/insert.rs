//! Inserts rows for messages.

use std::collections::HashSet;

use rusqlite::{Connection, named_params};

use super::error::Work;
use super::new_row::{NewRow, write_many};
use super::rows;
use super::shared::Shared;
use super::{nodes, unique};
use crate::error::Result;
use crate::job::JobMessage;
use crate::store::sections::section;
use crate::store::{Inserted, Preclaim};

const SQL: &str = include_str!("insert.sql");
const TAKE_NUMBERS: &str = section(SQL, "take_numbers");

impl Shared {
    pub(super) async fn insert(&self, messages: &[JobMessage], owned: Option<&Preclaim>) -> Result<Inserted> {
        if messages.is_empty() {
            return Ok(Inserted::default());
        }
        let (messages, owned) = (messages.to_vec(), owned.cloned());
        self.write("insert job messages", move |connection, now| insert(connection, &messages, owned.as_ref(), now))
            .await
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
    let (owner, reserved) = match owned {
        Some(owned) if nodes::is_alive(connection, owned.node)? => {
            (Some((owned.node, owned.claim)), owned.positions.iter().copied().collect::<HashSet<usize>>())
        }
        _ => (None, HashSet::new()),
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
        let mut row = NewRow { message, seq, now, owner: owner.filter(|_| reserved.contains(&position)) };
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
