//! Takes the keys of unique jobs before the jobs are inserted, in the same transaction. There is only one writer, so no locks are needed.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, named_params};

use super::error::Work;
use super::rows::{Micros, job_id};
use crate::job::{JobId, JobMessage, UniqueConflict, UniqueOptions};
use crate::store::given_ids::{Differs, OtherJob, refuse, refuse_twice};
use crate::store::sections::section;
use crate::store::unique::{Asked, Taken, conflict};

const SQL: &str = include_str!("unique.sql");
const KNOWN_AS: &str = section(SQL, "known_as");
const HOLDER: &str = section(SQL, "holder");
const TAKE: &str = section(SQL, "take");
const REPLACE: &str = section(SQL, "replace");

/// The job that has the id of a message.
pub(super) enum KnownAs {
    /// It was sent with the same kind and to the same queue.
    Same,
    Other(Differs),
}

/// Returns which job has the id of a message, in any state; `None` if none has.
pub(super) fn known_as(connection: &Connection, message: &JobMessage) -> rusqlite::Result<Option<KnownAs>> {
    let id = message.id;
    connection
        .prepare_cached(KNOWN_AS)?
        .query_row(named_params! { ":id": id.as_uuid().as_bytes() }, |row| {
            let (kind, queue) = (row.get::<_, String>("kind")?, row.get::<_, String>("queue")?);
            let sent_to = row.get::<_, Option<String>>("sent_to")?;
            Ok(Differs::between(message, &kind, &queue, sent_to.as_deref()).map_or(KnownAs::Same, KnownAs::Other))
        })
        .optional()
}

/// Returns the given ids that are known.
///
/// # Errors
/// `Conflict` if one of them is that of another job.
pub(super) fn known_ids(connection: &Connection, messages: &[JobMessage]) -> Work<HashSet<JobId>> {
    refuse_twice(messages)?;
    let (mut known, mut others) = (HashSet::new(), Vec::new());
    for message in messages.iter().filter(|message| message.id_given) {
        match known_as(connection, message)? {
            None => {}
            Some(KnownAs::Same) => drop(known.insert(message.id)),
            Some(KnownAs::Other(differs)) => others.push(OtherJob { id: message.id, differs }),
        }
    }
    refuse(&others)?;
    Ok(known)
}

/// Takes the keys of messages that ask for one, and returns which messages must not be written. Those that are `known` ask for none.
pub(super) fn take(
    connection: &Connection,
    messages: &[JobMessage],
    known: &HashSet<JobId>,
    now: Micros,
) -> Work<Taken> {
    let Some(asked) = Asked::new(messages, known)? else { return Ok(Taken::default()) };
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
        .prepare_cached(HOLDER)?
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
    connection.prepare_cached(TAKE)?.execute(named_params! {
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
    Ok(connection.prepare_cached(REPLACE)?.execute(named_params! { ":id": id.as_uuid().as_bytes() })? == 1)
}
