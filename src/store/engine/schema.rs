//! The role [`Schema`].

use async_trait::async_trait;

use super::StoreInfo;
use crate::error::Result;
use crate::store::migration::{self, MigrationStatus};

/// The tables of the engine, and their upgrades.
#[async_trait]
pub trait Schema: StoreInfo + Send + Sync {
    /// Applies the missing migrations. Safe when many processes start at once. Refuses a newer schema that this build does not run on.
    async fn migrate(&self) -> Result<Vec<MigrationStatus>>;

    /// Returns which migrations are applied and which are missing. Changes nothing.
    async fn migration_status(&self) -> Result<Vec<MigrationStatus>>;
}

/// Fails, and says what to do, unless the schema has all that this build needs, and nothing that it does not run with.
pub async fn check_schema(store: &dyn Schema) -> Result<()> {
    migration::check(&store.migration_status().await?, &store.describe())
}
