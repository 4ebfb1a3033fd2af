//! What there is to do beside running jobs: see `store::upkeep`.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::Sqlite;
use crate::error::Result;
use crate::store::{Upkeep, UpkeepDue};

/// Without a question of its own: a look of each part is a question to the file, which costs no round trip.
#[async_trait]
impl Upkeep for Sqlite {
    async fn upkeep(&self, _: Duration) -> Result<UpkeepDue> {
        Ok(UpkeepDue { now: Some(Timestamp::now()), ..UpkeepDue::ANY })
    }
}
