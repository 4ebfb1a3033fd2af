//! Queues that are full: see `store::queue_capacity`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Shared, rows};
use crate::error::Result;
use crate::store::FullQueue;
use crate::store::queue_capacity::Depths;

/// How long the rules are cached: reading them with each send would make a plain one a tenth slower.
const REMEMBERED: Duration = Duration::from_secs(1);

/// A recent copy of the depth limits of queues.
#[derive(Default)]
pub(super) struct DepthCache(Mutex<Option<(Instant, Arc<Depths>)>>);

pub(super) async fn full(shared: &Arc<Shared>, queues: &[&str]) -> Result<Vec<FullQueue>> {
    let limited = depths(shared).await?.of(queues);
    if limited.is_empty() {
        return Ok(Vec::new());
    }
    let (names, depths): (Vec<&str>, Vec<i64>) =
        limited.into_iter().map(|(name, depth)| (name, i64::try_from(depth).unwrap_or(i64::MAX))).unzip();
    let rows = shared.engine("look whether queues are full", &shared.sql.full_queues, &[&names, &depths]).await?;
    rows.iter()
        .map(|row| Ok(FullQueue { queue: rows::get(row, 0)?, depth: rows::get::<i64>(row, 1)?.unsigned_abs() }))
        .collect()
}

async fn depths(shared: &Arc<Shared>) -> Result<Arc<Depths>> {
    let remembered = || shared.depths.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((since, depths)) = &*remembered()
        && since.elapsed() < REMEMBERED
    {
        return Ok(depths.clone());
    }
    let depths = Arc::new(Depths::new(&super::rules::rules(shared).await?));
    *remembered() = Some((Instant::now(), depths.clone()));
    Ok(depths)
}

/// Drops the cache after the rules were changed through this handle.
pub(super) fn forget_depths(shared: &Arc<Shared>) {
    *shared.depths.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
}
