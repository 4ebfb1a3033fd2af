//! Promotes due timers.

use std::collections::BTreeSet;
use std::time::Duration;

use rusqlite::{Connection, named_params};

use super::rows::count;
use super::shared::Shared;
use crate::error::Result;
use crate::store::Promoted;
use crate::store::sections::section;

const SQL: &str = include_str!("maintenance.sql");
const NEXT_TIMER: &str = section(SQL, "next_timer");
const PROMOTE: &str = section(SQL, "promote");

impl Shared {
    pub(super) async fn promote_due(&self, limit: usize) -> Result<Promoted> {
        let tried = "promote due timers";
        let next = self.check(tried, |connection, now| Ok(next_timer(connection, now)?)).await?;
        if next.is_none_or(|wait| wait > Duration::ZERO) || limit == 0 {
            return Ok(Promoted { next, ..Promoted::default() });
        }
        let limit = count(limit);
        self.write(tried, move |connection, now| {
            let mut promote = connection.prepare_cached(PROMOTE)?;
            let mut moved = promote.query(named_params! { ":now": now, ":limit": limit })?;
            let (mut jobs, mut blocked, mut queues) = (0, false, BTreeSet::new());
            while let Some(row) = moved.next()? {
                jobs += 1;
                if row.get("blocked")? {
                    blocked = true;
                } else {
                    queues.insert(row.get::<_, String>("queue")?);
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
