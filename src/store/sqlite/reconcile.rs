//! Reconciles what is kept beside the jobs: see `store::reconcile`.

use rusqlite::{Connection, named_params};

use super::admission::WRITE_UNBLOCK;
use super::error::Work;
use super::rows::job_id;
use super::shared::Shared;
use super::statements::{Statement, statement};
use crate::error::Result;
use crate::store::reconcile::{PermitHolder, Reconciled};
use crate::store::sections::section;

const SQL: &str = include_str!("reconcile.sql");
static ORPHANED_PERMITS: Statement = statement!(SQL, "orphaned_permits");
const RECLAIM_PERMIT: &str = section(SQL, "reclaim_permit");
static STUCK_KEYS: Statement = statement!(SQL, "stuck_keys");

/// How many permits and keys one step finds. If there are more, the next one finds them.
const MOST: i64 = 5000;

impl Shared {
    pub(super) async fn reconcile(&self, before: &Reconciled) -> Result<Reconciled> {
        let tried = "look for permits without a holder";
        let before = before.orphans.clone();
        let looked = self.check(tried, |connection, _| Ok((orphans(connection)?, stuck(connection)?))).await?;
        if looked.1.is_empty() && !looked.0.iter().any(|orphan| before.contains(orphan)) {
            return Ok(Reconciled { orphans: looked.0, ..Reconciled::default() });
        }
        self.write("take back permits without a holder", move |connection, _| {
            let mut step = Reconciled::default();
            let unblock = |key: &str| {
                connection.prepare_cached(WRITE_UNBLOCK)?.execute(named_params! { ":key": key, ":at": 0, ":n": 1 })
            };
            for orphan in orphans(connection)? {
                if !before.contains(&orphan) {
                    step.orphans.push(orphan);
                    continue;
                }
                let id = *orphan.job.as_uuid().as_bytes();
                let gone = named_params! { ":job_id": id, ":key": orphan.key };
                connection.prepare_cached(RECLAIM_PERMIT)?.execute(gone)?;
                unblock(&orphan.key)?;
                step.reclaimed.push(orphan);
            }
            for key in stuck(connection)? {
                unblock(&key)?;
                step.unblocked.push(key);
            }
            Ok(step)
        })
        .await
    }
}

fn orphans(connection: &Connection) -> Work<Vec<PermitHolder>> {
    let mut statement = connection.prepare_cached(&ORPHANED_PERMITS)?;
    let found = statement.query_map(named_params! { ":limit": MOST }, |row| {
        Ok(PermitHolder { job: job_id(row, "job_id")?, key: row.get("key")? })
    })?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

fn stuck(connection: &Connection) -> Work<Vec<String>> {
    let mut statement = connection.prepare_cached(&STUCK_KEYS)?;
    let found = statement.query_map(named_params! { ":limit": MOST }, |row| row.get(0))?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}
