//! Writes the rows of messages: one by one, or many plain ones with few statements.

use std::sync::LazyLock;

use rusqlite::{Connection, ToSql, named_params};

use super::error::Work;
use super::job_columns::{CONTENT, JobContent};
use super::rows::{Micros, micros, timestamp};
use super::statements::{Statement, render, statement};
use crate::job::{ClaimNumber, Due, JobMessage, JobOptions, NodeId, RowLocation};
use crate::store::OwnedInsert;
use crate::store::admission::group_key;
use crate::store::sections::section;

const SQL: &str = include_str!("new_row.sql");
static COVERED: Statement = statement!(SQL, "covered");
static INSERT_JOB: Statement = statement!(SQL, "insert_job");
const UNBLOCK_KEY: &str = section(SQL, "unblock_key");

/// How many rows one statement inserts: twice as many are hardly faster.
const ROWS: usize = 32;

/// Parameters without names, which are bound in this order: the content, and then the number, the time of the flush, the end of a head
/// start, and the options.
static INSERT_JOBS: Statement = LazyLock::new(|| {
    let row = format!("({})", vec!["?"; CONTENT.len() + 4].join(", "));
    render(section(SQL, "insert_jobs")).replace("{rows}", &vec![row; ROWS].join(", "))
});

/// A message that is about to become a row.
pub(super) struct NewRow<'a> {
    pub(super) message: &'a JobMessage,
    pub(super) seq: i64,
    pub(super) now: i64,
    /// The owner, if the job is due now.
    pub(super) owner: Option<(NodeId, ClaimNumber)>,
}

impl NewRow<'_> {
    /// Returns whether a rule limits or pauses the job: such a job has no owner before it is admitted.
    pub(super) fn is_covered(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let params = named_params! {
            ":queue": self.message.queue, ":kind": self.message.kind, ":options": self.options(),
        };
        connection.prepare_cached(&COVERED)?.query_row(params, |row| row.get(0))
    }

    /// Returns whether the job is due now, has a new id and no owner, and is not blocked at first.
    pub(super) fn is_plain(&self) -> bool {
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

    /// Writes the row. Returns `false` if there is a job of its id.
    pub(super) fn write(&self, connection: &Connection, owned: &mut Vec<OwnedInsert>) -> Work<bool> {
        let due_at = self.due_at();
        let group =
            self.message.options.group.as_deref().filter(|_| due_at.is_none() && self.message.is_blocked_at_first());
        let blocked_on = group.map(group_key);
        let (node, claim) = self.owner.filter(|_| due_at.is_none() && blocked_on.is_none()).unzip();
        let state = match (due_at, &blocked_on, node) {
            (Some(_), ..) => "timer",
            (_, Some(_), _) => "blocked",
            (.., Some(_)) => "running",
            _ => "waiting",
        };
        let mut statement = connection.prepare_cached(&INSERT_JOB)?;
        let written = JobContent::new(self.message)?.execute(
            &mut statement,
            named_params! {
                ":seq": self.seq,
                ":state": state,
                ":now": self.now,
                // An owned row looks as if a claim had taken it.
                ":version": claim.map_or(0, ClaimNumber::get),
                ":attempt": i64::from(node.is_some()),
                ":owner": node.map(|node| node.0),
                ":claimed_at": node.map(|_| self.now),
                ":visible_at": if state == "waiting" { self.visible_at() } else { None },
                ":due_at": due_at,
                ":blocked_on": blocked_on,
                ":options": self.options(),
            },
        )?;
        if written == 0 {
            return Ok(false);
        }
        if node.is_some() {
            owned.push(OwnedInsert {
                id: self.message.id,
                seq: self.seq,
                created_at: timestamp(self.now)?,
                location: RowLocation::default(),
            });
        }
        if let Some(key) = blocked_on {
            connection.prepare_cached(UNBLOCK_KEY)?.execute(named_params! { ":key": key })?;
        }
        Ok(true)
    }

    /// Returns the options as JSON. A time to live starts with the flush.
    fn options(&self) -> Option<String> {
        let options = &self.message.options;
        match options.ttl {
            Some(ttl) => {
                JobOptions { expires: Some(self.now.saturating_add(micros(ttl))), ..options.clone() }.to_json()
            }
            None => options.to_json(),
        }
    }

    /// Returns when the head start of the row's delivery ends. A row with an owner is not delivered.
    fn visible_at(&self) -> Option<Micros> {
        (self.owner.is_none() && !self.message.hidden_for.is_zero())
            .then(|| self.now.saturating_add(micros(self.message.hidden_for)))
    }
}

/// Writes the rows that fill whole statements. Returns the number written, and the remaining rows.
pub(super) fn write_many<'a, 'm>(connection: &Connection, rows: &'a [NewRow<'m>]) -> Work<(u64, &'a [NewRow<'m>])> {
    let chunks = rows.chunks_exact(ROWS);
    let rest = chunks.remainder();
    let mut written = 0;
    if rows.len() >= ROWS {
        let mut statement = connection.prepare_cached(&INSERT_JOBS)?;
        for chunk in chunks {
            let mut bound = 0;
            let mut bind = |value: &dyn ToSql| {
                bound += 1;
                statement.raw_bind_parameter(bound, value)
            };
            for row in chunk {
                let others: [&dyn ToSql; 4] = [&row.seq, &row.now, &row.visible_at(), &row.options()];
                JobContent::new(row.message)?.values().into_iter().chain(others).try_for_each(&mut bind)?;
            }
            written += statement.raw_execute()? as u64;
        }
    }
    Ok((written, rest))
}
