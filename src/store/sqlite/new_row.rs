//! Writes the row of one message.

use rusqlite::{Connection, named_params};

use super::error::Work;
use super::job_columns::JobContent;
use super::rows::{Micros, micros, timestamp};
use super::statements::{Statement, statement};
use crate::job::{ClaimNumber, Due, JobMessage, JobOptions, NodeId, RowLocation};
use crate::store::OwnedInsert;
use crate::store::admission::group_key;

static COVERED: Statement = statement!("sql/covered.sql");
static INSERT_JOB: Statement = statement!("sql/insert_job.sql");
static INSERT_BLOCKED: Statement = statement!("sql/insert_blocked.sql");
static INSERT_TIMER: Statement = statement!("sql/insert_timer.sql");
const UNBLOCK_KEY: &str = include_str!("sql/unblock_key.sql");

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
    pub(super) fn due_at(&self) -> Option<Micros> {
        let due_at = match self.message.due {
            Due::Now => return None,
            Due::In(delay) => self.now.saturating_add(micros(delay)),
            Due::At(at) => at.as_microsecond(),
        };
        (due_at > self.now).then_some(due_at)
    }

    pub(super) fn write_job(&self, connection: &Connection, owned: &mut Vec<OwnedInsert>) -> Work<bool> {
        let (node, claim) = self.owner.unzip();
        let mut statement = connection.prepare_cached(&INSERT_JOB)?;
        let written = JobContent::new(self.message)?.execute(
            &mut statement,
            named_params! {
                ":seq": self.seq,
                ":now": self.now,
                // An owned row looks as if a claim had taken it.
                ":version": claim.map_or(0, ClaimNumber::get),
                ":attempt": i64::from(node.is_some()),
                ":owner": node.map(|node| node.0),
                ":claimed_at": node.map(|_| self.now),
                ":visible_at": self.visible_at(),
                ":options": self.options(),
            },
        )?;
        if written == 1 && self.owner.is_some() {
            owned.push(OwnedInsert {
                id: self.message.id,
                seq: self.seq,
                created_at: timestamp(self.now)?,
                location: RowLocation::default(),
            });
        }
        Ok(written == 1)
    }

    pub(super) fn write_blocked(&self, connection: &Connection) -> Work<bool> {
        let blocked_on = self.message.options.group.as_deref().map(group_key);
        let mut statement = connection.prepare_cached(&INSERT_BLOCKED)?;
        let written = JobContent::new(self.message)?.execute(
            &mut statement,
            named_params! {
                ":seq": self.seq, ":now": self.now, ":options": self.options(), ":blocked_on": blocked_on,
            },
        )?;
        if written == 1 {
            connection.prepare_cached(UNBLOCK_KEY)?.execute(named_params! { ":key": blocked_on })?;
        }
        Ok(written == 1)
    }

    pub(super) fn write_timer(&self, connection: &Connection, due_at: Micros) -> Work<bool> {
        let mut statement = connection.prepare_cached(&INSERT_TIMER)?;
        let written = JobContent::new(self.message)?.execute(
            &mut statement,
            named_params! { ":seq": self.seq, ":now": self.now, ":due_at": due_at, ":options": self.options() },
        )?;
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

    /// Returns when the head start of the row's delivery ends. A row with an owner is not delivered.
    pub(super) fn visible_at(&self) -> Option<Micros> {
        (self.owner.is_none() && !self.message.hidden_for.is_zero())
            .then(|| self.now.saturating_add(micros(self.message.hidden_for)))
    }
}
