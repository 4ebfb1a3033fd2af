//! Jobs whose process died while they ran: which of them wait, and which are suspects no more. Claims of them are ordinary claims (claim.rs,
//! counting.rs) of other rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use uuid::Uuid;

use super::rows;
use super::shared::Shared;
use crate::error::Result;
use crate::job::JobId;
use crate::store::{Acquitted, Suspect};

pub(super) async fn suspects(
    shared: &Arc<Shared>,
    queues: &[String],
    kinds: Option<&[String]>,
    limit: usize,
) -> Result<Vec<Suspect>> {
    let rows =
        shared.engine("look for suspects", &shared.sql.suspects, &[&queues, &kinds, &rows::count(limit)]).await?;
    rows.iter()
        .map(|row| {
            let id: Uuid = rows::get(row, "id")?;
            Ok(Suspect {
                id: id.into(),
                version: rows::get(row, "version")?,
                attempt: rows::attempts(rows::get(row, "attempt")?),
                queue: rows::get(row, "queue")?,
                kind: rows::get(row, "kind")?,
                needs_permits: rows::get(row, "needs_permits")?,
            })
        })
        .collect()
}

pub(super) async fn acquit(shared: &Arc<Shared>, ids: &[JobId]) -> Result<Acquitted> {
    let ids: Vec<_> = ids.iter().map(|id| *id.as_uuid()).collect();
    let rows = shared.engine("acquit suspects", &shared.sql.acquit, &[&ids]).await?;
    let mut acquitted = Acquitted::default();
    let mut queues = BTreeSet::new();
    for row in &rows {
        match rows::get::<Option<String>>(row, "queue")? {
            Some(queue) => {
                queues.insert(queue);
            }
            None => acquitted.locked += 1,
        }
    }
    acquitted.queues = queues.into_iter().collect();
    Ok(acquitted)
}
