//! Jobs whose process died while they ran: which of them wait, and which are suspects no more. Claims of them are ordinary claims (claim.rs,
//! counting.rs) of other rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use uuid::Uuid;

use super::rows;
use super::shared::Shared;
use crate::error::Result;
use crate::job::JobId;
use crate::store::Suspect;

pub(super) async fn suspects(
    shared: &Arc<Shared>,
    queues: &[String],
    kinds: &[String],
    limit: usize,
) -> Result<Vec<Suspect>> {
    let rows =
        shared.engine("look for suspects", &shared.sql.suspects, &[&queues, &kinds, &rows::count(limit)]).await?;
    rows.iter()
        .map(|row| {
            let id: Uuid = rows::get(row, "id")?;
            Ok(Suspect {
                id: id.into(),
                queue: rows::get(row, "queue")?,
                kind: rows::get(row, "kind")?,
                needs_permits: rows::get(row, "needs_permits")?,
            })
        })
        .collect()
}

pub(super) async fn acquit(shared: &Arc<Shared>, ids: &[JobId]) -> Result<Vec<String>> {
    let ids: Vec<_> = ids.iter().map(|id| *id.as_uuid()).collect();
    let rows = shared.engine("acquit suspects", &shared.sql.acquit, &[&ids]).await?;
    let queues: BTreeSet<String> = rows.iter().map(|row| rows::get(row, 0)).collect::<Result<_>>()?;
    Ok(queues.into_iter().collect())
}
