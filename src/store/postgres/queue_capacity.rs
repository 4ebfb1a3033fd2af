//! Queues that are full: see `store::queue_capacity`.

use std::sync::Arc;

use super::rows;
use super::shared::Shared;
use crate::error::Result;
use crate::store::FullQueue;
use crate::store::queue_capacity::Depths;

pub(super) async fn full(shared: &Arc<Shared>, queues: &[&str]) -> Result<Vec<FullQueue>> {
    let limited = depths(shared).await?.of(queues);
    if limited.is_empty() {
        return Ok(Vec::new());
    }
    let (names, depths): (Vec<&str>, Vec<i64>) =
        limited.into_iter().map(|(name, depth)| (name, i64::try_from(depth).unwrap_or(i64::MAX))).unzip();
    let rows = shared.engine("look whether queues are full", &shared.sql.full_queues, &[&names, &depths]).await?;
    rows.iter()
        .map(|row| {
            Ok(FullQueue { queue: rows::get(row, "name")?, depth: rows::get::<i64>(row, "depth")?.unsigned_abs() })
        })
        .collect()
}

async fn depths(shared: &Arc<Shared>) -> Result<Arc<Depths>> {
    if let Some(depths) = shared.depths.recent() {
        return Ok(depths);
    }
    let depths = Arc::new(Depths::new(&super::rules::rules(shared).await?));
    shared.depths.keep(&depths);
    Ok(depths)
}
