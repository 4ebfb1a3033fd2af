//! Waiting jobs by kind.

use std::sync::Arc;

use super::rows;
use super::shared::Shared;
use crate::error::Result;
use crate::store::{KindStatus, WaitingKinds};

pub(super) async fn waiting_kinds(shared: &Arc<Shared>, queues: &[&str]) -> Result<WaitingKinds> {
    if queues.is_empty() {
        return Ok(WaitingKinds::default());
    }
    let each = WaitingKinds::each(queues.len());
    let found = shared.engine("count jobs by kind", &shared.sql.waiting_kinds, &[&queues, &rows::count(each)]).await?;
    let read = |row| {
        Ok(KindStatus {
            queue: rows::get(row, "queue")?,
            kind: rows::get(row, "kind")?,
            waiting: rows::counted(row, "waiting")?,
            oldest_waiting_seconds: rows::get::<f64>(row, "oldest_waiting_seconds")?.max(0.0),
        })
    };
    Ok(WaitingKinds::new(found.iter().map(read).collect::<Result<_>>()?, each))
}
