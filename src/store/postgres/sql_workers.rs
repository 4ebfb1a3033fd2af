//! Programs that take jobs by SQL.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::rows;
use super::shared::Shared;
use crate::error::Result;
use crate::store::{Count, SqlWorker};

/// How many hand-outs are looked at. A row costs about a microsecond.
const MOST: i64 = 100_000;

pub(super) async fn all(shared: &Arc<Shared>) -> Result<Vec<SqlWorker>> {
    let found = shared.engine("list the workers by SQL", &shared.sql.sql_workers, &[&MOST]).await?;
    let mut workers: Vec<SqlWorker> = Vec::new();
    // A name's rows follow one another.
    for row in &found {
        let (name, queue): (String, String) = (rows::get(row, "name")?, rows::get(row, "queue")?);
        let kinds: Option<BTreeSet<String>> = rows::json(row, "kinds")?;
        let (heard_at, alive) = (rows::get(row, "heard_at")?, rows::get(row, "alive")?);
        if workers.last().is_none_or(|last| last.name != name) {
            workers.push(SqlWorker { name, queues: [].into(), held: Count::default(), heard_at, alive });
        }
        if let Some(worker) = workers.last_mut() {
            if rows::get(row, "noted")? {
                worker.queues.insert(queue, kinds);
            }
            worker.held += Count::Exact(rows::counted(row, "held")?);
            worker.heard_at = worker.heard_at.max(heard_at);
            worker.alive |= alive;
        }
    }
    Ok(workers)
}
