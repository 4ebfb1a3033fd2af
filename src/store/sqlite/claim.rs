//! Claims jobs, and promotes due timers.

use std::collections::BTreeSet;
use std::time::Duration;

use rusqlite::{Connection, named_params};

use super::Inner;
use super::fragments::{Statement, statement};
use super::history::Memory;
use super::nodes::may_own;
use super::rows::count;
use super::settle::dead_letter_unreadable;
use super::unreadable::sort_out;
use crate::error::{Error, Result};
use crate::job::{Job, NodeId};
use crate::store::{ClaimRequest, Promoted, ScanRange};

static CLAIM_CHECK: Statement = statement!("sql/claim_check.sql");
static CLAIM: Statement = statement!("sql/claim.sql");
const NEXT_TIMER: &str = include_str!("sql/next_timer.sql");
const PROMOTE_COPY: &str = include_str!("sql/promote_copy.sql");
const PROMOTE_REMOVE: &str = include_str!("sql/promote_remove.sql");

/// The parameters of a claim's three arms.
#[derive(Clone, Copy)]
struct Arms {
    /// Better ranks are scanned completely.
    rank: i32,
    /// In this rank, the scan starts after this number,
    after: i64,
    /// and ends with this one.
    until: i64,
    /// Whether worse ranks are scanned too.
    worse: bool,
}

impl Arms {
    /// Of several cursors only the last is used. The index contains only waiting rows, so scanning more than necessary costs little.
    fn of(range: &ScanRange<'_>) -> Self {
        // Sorts before every row: ranks are negated priorities, which are 16 bits wide.
        let all = Self { rank: -32_769, after: 0, until: i64::MAX, worse: true };
        match range {
            ScanRange::All => all,
            ScanRange::After { cursors, .. } => {
                cursors.last().map_or(all, |cursor| Self { rank: cursor.rank.into(), after: cursor.seq, ..all })
            }
            ScanRange::UpTo(last) => Self { rank: last.rank.into(), after: i64::MIN, until: last.seq, worse: false },
        }
    }
}

impl Inner {
    pub(super) async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Vec<Job>> {
        if request.limit == 0 {
            return Ok(Vec::new());
        }
        let tried = "claim jobs";
        let (node, claim) = (request.node.0, request.claim.get());
        let (queue, limit) = (request.queue.to_owned(), count(request.limit));
        let Arms { rank, after, until, worse } = Arms::of(&request.range);
        let kinds = request
            .kinds
            .map(serde_json::to_string)
            .transpose()
            .map_err(|error| Error::invalid("the kinds can't be written as JSON").with_source(error))?;

        let (include_hidden, keep) = (request.include_hidden, self.history.keep);
        let looked_for = (queue.clone(), kinds.clone());
        let found = self
            .check(tried, move |connection, now| {
                let (queue, kinds) = looked_for;
                let mut statement = connection.prepare_cached(&CLAIM_CHECK)?;
                let params = named_params! {
                    ":queue": queue, ":kinds": kinds, ":rank": rank, ":after": after, ":until": until, ":worse": worse, ":now": now,
                    ":include_hidden": include_hidden,
                };
                Ok(statement.query_row(params, |row| row.get::<_, bool>(0))?)
            })
            .await?;
        if !found {
            return Ok(Vec::new());
        }
        self.write(tried, move |connection, now| {
            may_own(connection, NodeId(node))?;
            let mut statement = connection.prepare_cached(&CLAIM)?;
            let params = named_params! {
                ":node": node, ":claim": claim, ":now": now, ":queue": queue, ":kinds": kinds, ":rank": rank, ":after": after, ":until": until,
                ":worse": worse, ":limit": limit, ":include_hidden": include_hidden,
            };
            let (jobs, unreadable) = sort_out(&mut statement.query(params)?)?;
            for row in &unreadable {
                dead_letter_unreadable(connection, NodeId(node), row, Memory { keep, now })?;
            }
            Ok(jobs)
        })
        .await
    }

    pub(super) async fn promote_due(&self, limit: usize) -> Result<Promoted> {
        let tried = "promote due timers";
        let next = self.check(tried, |connection, now| Ok(next_timer(connection, now)?)).await?;
        if next.is_none_or(|wait| wait > Duration::ZERO) || limit == 0 {
            return Ok(Promoted { next, ..Promoted::default() });
        }
        let limit = count(limit);
        self.write(tried, move |connection, now| {
            let window = named_params! { ":now": now, ":limit": limit };
            connection.prepare_cached(PROMOTE_COPY)?.execute(window)?;
            let mut remove = connection.prepare_cached(PROMOTE_REMOVE)?;
            let mut moved = remove.query(window)?;
            let (mut jobs, mut blocked, mut queues) = (0, false, BTreeSet::new());
            while let Some(row) = moved.next()? {
                jobs += 1;
                if row.get(1)? {
                    blocked = true;
                } else {
                    queues.insert(row.get::<_, String>(0)?);
                }
            }
            let next = next_timer(connection, now)?;
            Ok(Promoted { jobs, queues: queues.into_iter().collect(), blocked, next })
        })
        .await
    }
}

/// Returns how long until the next timer is due: zero if it is overdue.
fn next_timer(connection: &Connection, now: i64) -> rusqlite::Result<Option<Duration>> {
    let due_at: Option<i64> = connection.prepare_cached(NEXT_TIMER)?.query_row([], |row| row.get(0))?;
    Ok(due_at.map(|due_at| Duration::from_micros(u64::try_from(due_at.saturating_sub(now)).unwrap_or(0))))
}
