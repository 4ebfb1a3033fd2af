//! What there is to do beside running jobs: see `store::upkeep`.

use async_trait::async_trait;

use super::Sqlite;
use crate::store::Upkeep;

/// Without a question of its own: a look of each part is a question to the file, which costs no round trip.
#[async_trait]
impl Upkeep for Sqlite {}
