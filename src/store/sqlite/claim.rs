//! Claims jobs.

use std::time::{Duration, Instant};

use rusqlite::named_params;

use super::history::Memory;
use super::job_columns::JobPositions;
use super::nodes::may_own;
use super::rows::{count, name_list};
use super::shared::Shared;
use super::statements::{Statement, statement};
use super::unreadable::sort_out;
use crate::error::Result;
use crate::job::{Job, NodeId};
use crate::store::{ClaimRequest, ScanRange};

const SQL: &str = include_str!("claim.sql");
static CLAIM_CHECK: Statement = statement!(SQL, "claim_check");
static CLAIM: Statement = statement!(SQL, "claim");

/// How long a claim that meets nothing but rows that can't be read goes on: a sender of many must not make a queue look empty.
const PATIENCE: Duration = Duration::from_secs(1);

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

impl Shared {
    pub(super) async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Vec<Job>> {
        if request.limit == 0 {
            return Ok(Vec::new());
        }
        let tried = "claim jobs";
        let (node, claim) = (request.node.0, request.claim.get());
        let (queue, limit) = (request.queue.to_owned(), count(request.limit));
        let Arms { rank, after, until, worse } = Arms::of(&request.range);
        let kinds = request.kinds.map(name_list).transpose()?;

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
            let columns = JobPositions::of(&statement)?;
            let began = Instant::now();
            loop {
                let (jobs, unreadable) = sort_out(&columns, &mut statement.query(params)?)?;
                for row in &unreadable {
                    row.bury(connection, NodeId(node), Memory { keep, now })?;
                }
                if !jobs.is_empty() || unreadable.is_empty() || began.elapsed() > PATIENCE {
                    return Ok(jobs);
                }
            }
        })
        .await
    }
}
