//! Takes the keys of unique jobs before the jobs are inserted, in the same transaction. There is only one writer, so no locks are needed.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, named_params};

use super::error::Work;
use super::rows::{Micros, job_id};
use crate::job::{JobId, JobMessage, UniqueConflict, UniqueOptions};
use crate::store::unique::{Asked, Taken, conflict, given};

const ID_EXISTS: &str = include_str!("sql/id_exists.sql");
const UNIQUE_HOLDER: &str = include_str!("sql/unique_holder.sql");
const UNIQUE_TAKE: &str = include_str!("sql/unique_take.sql");
const UNIQUE_REPLACE: [&str; 3] = [
    "delete from jobwright_job where id = :id and lock_owner is null",
    "delete from jobwright_blocked_job where id = :id",
    "delete from jobwright_timer_job where id = :id",
];

/// Returns whether there is a job with this id, in any state.
pub(super) fn id_exists(connection: &Connection, id: JobId) -> rusqlite::Result<bool> {
    connection.prepare_cached(ID_EXISTS)?.query_row(named_params! { ":id": id.as_uuid().as_bytes() }, |row| row.get(0))
}

/// Takes the keys of messages that ask for one, and returns which messages must not be written.
pub(super) fn take(connection: &Connection, messages: &[JobMessage], now: Micros) -> Work<Taken> {
    let mut known = HashSet::new();
    for id in given(messages) {
        if id_exists(connection, id)? {
            known.insert(id);
        }
    }
    let Some(asked) = Asked::new(messages, &known)? else { return Ok(Taken::default()) };
    let mut holders = Vec::with_capacity(asked.firsts.len());
    for (_, message, options) in &asked.firsts {
        holders.push(take_one(connection, message, options, now)?);
    }
    Ok(asked.taken(&holders))
}

/// Returns the other holder of the key, or `None` if the message holds it now.
fn take_one(
    connection: &Connection,
    message: &JobMessage,
    options: &UniqueOptions,
    now: Micros,
) -> Work<Option<JobId>> {
    let held = connection
        .prepare_cached(UNIQUE_HOLDER)?
        .query_row(named_params! { ":key": options.key, ":now": now }, |row| {
            Ok((job_id(row, "job_id")?, row.get::<_, bool>("held")?, row.get::<_, bool>("waits")?))
        })
        .optional()?;
    if let Some((holder, true, waits)) = held {
        match options.conflict {
            UniqueConflict::Reject if holder != message.id => return Err(conflict(message, holder).into()),
            UniqueConflict::Replace if holder != message.id && waits && remove(connection, holder)? => {}
            _ => return Ok(Some(holder)),
        }
    }
    connection.prepare_cached(UNIQUE_TAKE)?.execute(named_params! {
        ":key": options.key,
        ":id": message.id.as_uuid().as_bytes(),
        ":hold": options.hold.as_str(),
        ":taken_at": options.period.map(|_| now),
        ":expires_at": options.period.map(|period| now.saturating_add(period)),
    })?;
    Ok(None)
}

/// Removes a waiting job in favour of its replacement. Returns `false` if the job is suspended.
fn remove(connection: &Connection, id: JobId) -> Work<bool> {
    for sql in UNIQUE_REPLACE {
        if connection.prepare_cached(sql)?.execute(named_params! { ":id": id.as_uuid().as_bytes() })? == 1 {
            return Ok(true);
        }
    }
    Ok(false)
}
