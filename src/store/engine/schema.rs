//! The role [`Schema`].

use async_trait::async_trait;

use super::StoreInfo;
use crate::error::Result;
use crate::store::MigrationStatus;

/// The tables of the engine, and their upgrades.
#[async_trait]
pub trait Schema: StoreInfo + Send + Sync {
    /// Applies the missing migrations. Safe when many processes start at once. Refuses a newer schema that this build does not run on.
    async fn migrate(&self) -> Result<Vec<MigrationStatus>>;

    /// Returns which migrations are applied and which are missing. Changes nothing.
    async fn migration_status(&self) -> Result<Vec<MigrationStatus>>;
}
