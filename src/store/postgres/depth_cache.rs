//! A recent copy of the depth limits of queues.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::store::queue_capacity::Depths;

/// How long the rules are cached: reading them with each send would make a plain one a tenth slower.
const REMEMBERED: Duration = Duration::from_secs(1);

/// The depth limits, and when they were read.
#[derive(Default)]
pub(super) struct DepthCache(Mutex<Option<(Instant, Arc<Depths>)>>);

impl DepthCache {
    /// Returns the limits if they were read a moment ago.
    pub(super) fn recent(&self) -> Option<Arc<Depths>> {
        let cached = self.lock();
        let (since, depths) = cached.as_ref()?;
        (since.elapsed() < REMEMBERED).then(|| depths.clone())
    }

    pub(super) fn keep(&self, depths: &Arc<Depths>) {
        *self.lock() = Some((Instant::now(), depths.clone()));
    }

    /// Drops the copy, after the rules were changed through this handle.
    pub(super) fn forget(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Instant, Arc<Depths>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
