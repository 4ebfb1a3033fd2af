//! Inserts rows for messages.

use std::collections::HashSet;

use rusqlite::{Connection, named_params};

use super::failure::{Failure, Work};
use super::fragments::{Statement, statement};
use super::rows::{Micros, micros, timestamp};
use super::{Inner, insert_many, nodes, take_numbers, unique};
use crate::error::{Error, Result};
use crate::job::{ClaimNumber, Due, JobId, JobMessage, JobOptions, NodeId, Payload, RowLocation};
use crate::store::admission::group_key;
use crate::store::{Inserted, OwnedInsert, Preclaim};

const ID_EXISTS: &str = include_str!("sql/id_exists.sql");
static COVERED: Statement = statement!("sql/covered.sql");
const INSERT_JOB: &str = include_str!("sql/insert_job.sql");
const UNBLOCK_KEY: &str = include_str!("sql/unblock_key.sql");
const INSERT_BLOCKED: &str = include_str!("sql/insert_blocked.sql");
const INSERT_TIMER: &str = include_str!("sql/insert_timer.sql");

impl Inner {
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
    let taken = unique::take(connection, messages, now)?;
    let (owner, reserved) = match owned {
        Some(owned) if nodes::is_alive(connection, owned.node)? => {
            (Some((owned.node, owned.claim)), owned.positions.iter().copied().collect::<HashSet<usize>>())
        }
        _ => (None, HashSet::new()),
    };
    let mut inserted = Inserted { duplicates: taken.duplicates, ..Inserted::default() };
    // Rows that need no check of their own.
    let mut plain = Vec::new();
    for (seq, (position, message)) in (first..).zip(messages.iter().enumerate()) {
        if taken.skip.contains(&position) {
            continue;
        }
        let mut row = NewRow { message, seq, now, owner: owner.filter(|_| reserved.contains(&position)) };
        if row.owner.is_some() && row.is_covered(connection)? {
            row.owner = None;
        }
        if message.id_given && row.exists(connection)? {
            continue;
        }
        if row.is_plain() {
            plain.push(row);
            continue;
        }
        let written = match row.due_at() {
            Some(due_at) => row.write_timer(connection, due_at)?,
            None if message.is_blocked_at_first() => row.write_blocked(connection)?,
            None => row.write_job(connection, &mut inserted.owned)?,
        };
        inserted.rows += u64::from(written);
    }
    let (written, rest) = insert_many::write(connection, &plain)?;
    inserted.rows += written;
    for row in rest {
        inserted.rows += u64::from(row.write_job(connection, &mut inserted.owned)?);
    }
    Ok(inserted)
}

/// Returns whether there is a job with this id, in any state.
pub(super) fn id_exists(connection: &Connection, id: JobId) -> rusqlite::Result<bool> {
    connection.prepare_cached(ID_EXISTS)?.query_row(named_params! { ":id": id.as_uuid().as_bytes() }, |row| row.get(0))
}

/// A message that is about to become a row.
pub(super) struct NewRow<'a> {
    pub(super) message: &'a JobMessage,
    pub(super) seq: i64,
    pub(super) now: i64,
    /// The owner, if the job is due now.
    owner: Option<(NodeId, ClaimNumber)>,
}

impl NewRow<'_> {
    /// Returns whether a rule limits or pauses the job: such a job has no owner before it is admitted.
    fn is_covered(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let params = named_params! {
            ":queue": self.message.queue, ":kind": self.message.kind, ":options": self.options(),
        };
        connection.prepare_cached(&COVERED)?.query_row(params, |row| row.get(0))
    }

    fn exists(&self, connection: &Connection) -> rusqlite::Result<bool> {
        id_exists(connection, self.message.id)
    }

    /// Returns whether the job is due now, has a new id and no owner, and is not blocked at first.
    fn is_plain(&self) -> bool {
        self.owner.is_none() && !self.message.id_given && !self.message.is_blocked_at_first() && self.due_at().is_none()
    }

    /// Returns when the job is due, if that is later than now.
    fn due_at(&self) -> Option<Micros> {
        let due_at = match self.message.due {
            Due::Now => return None,
            Due::In(delay) => self.now.saturating_add(micros(delay)),
            Due::At(at) => at.as_microsecond(),
        };
        (due_at > self.now).then_some(due_at)
    }

    fn write_job(&self, connection: &Connection, owned: &mut Vec<OwnedInsert>) -> Work<bool> {
        let message = self.message;
        let (payload, body, content_type) = content(&message.payload);
        let written = connection.prepare_cached(INSERT_JOB)?.execute(named_params! {
            ":seq": self.seq,
            // An owned row looks as if a claim had taken it.
            ":version": self.owner.map_or(0, |(_, claim)| claim.get()),
            ":attempt": i64::from(self.owner.is_some()),
            ":owner": self.owner.map(|(node, _)| node.0),
            ":claimed_at": self.owner.map(|_| self.now),
            ":now": self.now,
            ":id": message.id.as_uuid().as_bytes(),
            ":max_attempts": message.max_attempts,
            ":rank": rank(message),
            ":kind": message.kind,
            ":queue": message.queue,
            ":payload": payload,
            ":body": body,
            ":content_type": content_type,
            ":headers": headers(message)?,
            ":visible_at": visible_at(self),
            ":options": self.options(),
        })?;
        if written == 1 && self.owner.is_some() {
            owned.push(OwnedInsert {
                id: message.id,
                seq: self.seq,
                created_at: timestamp(self.now)?,
                location: RowLocation::default(),
            });
        }
        Ok(written == 1)
    }

    /// Returns the options as JSON. A time to live starts with the flush.
    pub(super) fn options(&self) -> Option<String> {
        let options = &self.message.options;
        match options.ttl {
            Some(ttl) => {
                JobOptions { expires: Some(self.now.saturating_add(micros(ttl))), ..options.clone() }.to_json()
            }
            None => options.to_json(),
        }
    }

    fn write_blocked(&self, connection: &Connection) -> Work<bool> {
        let message = self.message;
        let blocked_on = message.options.group.as_deref().map(group_key);
        let (payload, body, content_type) = content(&message.payload);
        let written = connection.prepare_cached(INSERT_BLOCKED)?.execute(named_params! {
            ":seq": self.seq,
            ":now": self.now,
            ":id": message.id.as_uuid().as_bytes(),
            ":max_attempts": message.max_attempts,
            ":rank": rank(message),
            ":kind": message.kind,
            ":queue": message.queue,
            ":payload": payload,
            ":body": body,
            ":content_type": content_type,
            ":headers": headers(message)?,
            ":options": self.options(),
            ":blocked_on": blocked_on,
        })?;
        if written == 1 {
            connection.prepare_cached(UNBLOCK_KEY)?.execute(named_params! { ":key": blocked_on })?;
        }
        Ok(written == 1)
    }

    fn write_timer(&self, connection: &Connection, due_at: Micros) -> Work<bool> {
        let message = self.message;
        let (payload, body, content_type) = content(&message.payload);
        let written = connection.prepare_cached(INSERT_TIMER)?.execute(named_params! {
            ":seq": self.seq,
            ":due_at": due_at,
            ":now": self.now,
            ":id": message.id.as_uuid().as_bytes(),
            ":max_attempts": message.max_attempts,
            ":rank": rank(message),
            ":kind": message.kind,
            ":queue": message.queue,
            ":payload": payload,
            ":body": body,
            ":content_type": content_type,
            ":headers": headers(message)?,
            ":options": self.options(),
        })?;
        Ok(written == 1)
    }
}

/// Returns when the head start of the row's delivery ends. A row with an owner is not delivered.
pub(super) fn visible_at(row: &NewRow<'_>) -> Option<Micros> {
    (row.owner.is_none() && !row.message.hidden_for.is_zero())
        .then(|| row.now.saturating_add(micros(row.message.hidden_for)))
}

/// Returns `-priority`, so that (rank, seq) ascending is the order of claims.
pub(super) fn rank(message: &JobMessage) -> i32 {
    -i32::from(message.priority)
}

/// Returns the columns payload, body and `content_type`.
pub(super) fn content(payload: &Payload) -> (Option<&str>, Option<&[u8]>, Option<&str>) {
    match payload {
        Payload::Json(raw) => (Some(raw.get()), None, None),
        Payload::Bytes { content_type, body } => (None, Some(body), Some(content_type)),
    }
}

/// Returns the headers as JSON, or NULL if there are none.
pub(super) fn headers(message: &JobMessage) -> std::result::Result<Option<String>, Failure> {
    if message.headers.is_empty() {
        return Ok(None);
    }
    serde_json::to_string(&message.headers)
        .map(Some)
        .map_err(|error| Error::invalid("the headers can't be written as JSON").with_source(error).into())
}
