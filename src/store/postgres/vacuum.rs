//! What keeps the tables from being cleaned up.

use std::sync::Arc;

use super::rows;
use super::shared::Shared;
use crate::error::Result;
use crate::store::{VacuumStatus, XminHolder};

pub(super) async fn vacuum(shared: &Arc<Shared>) -> Result<VacuumStatus> {
    let dead = shared.engine("count dead rows", &shared.sql.dead_rows, &[]).await?;
    let dead_rows = dead.iter().map(|row| Ok((rows::get(row, "relation")?, rows::counted(row, "dead")?)));
    let dead_rows = dead_rows.collect::<Result<_>>()?;
    let found = shared.engine("look for sessions and slots that keep dead rows", &shared.sql.xmin_holders, &[]).await?;
    let hidden_sessions = rows::counted(rows::single(&found)?, "hidden")?;
    let mut holders = Vec::new();
    for row in &found {
        // Without a holder there is one row, which says only what is hidden.
        let Some(kind) = rows::get(row, "kind")? else { continue };
        holders.push(XminHolder {
            kind,
            name: rows::get(row, "name")?,
            transactions: rows::counted(row, "transactions")?,
            seconds: rows::get(row, "seconds")?,
        });
    }
    Ok(VacuumStatus { dead_rows, holders, hidden_sessions })
}
