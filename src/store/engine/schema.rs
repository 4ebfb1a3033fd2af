//! The role [`Schema`].

use async_trait::async_trait;

use super::StoreInfo;
use crate::error::Result;
use crate::store::migration::{self, MigrationStatus};
use crate::store::{Adoption, Installation};

/// The tables of the engine, and their upgrades.
#[async_trait]
pub trait Schema: StoreInfo + Send + Sync {
    /// Applies the missing migrations. Safe when many processes start at once. Refuses a newer schema that this build does not run on.
    async fn migrate(&self) -> Result<Vec<MigrationStatus>>;

    /// Returns which migrations are applied and which are missing. Changes nothing.
    async fn migration_status(&self) -> Result<Vec<MigrationStatus>>;

    /// Returns to which installation the database belongs, and whether it is where that was made. `None`: this store knows no installations.
    async fn installation(&self) -> Result<Option<Installation>> {
        Ok(None)
    }

    /// Makes the database an installation of its own, or records that its installation is here now. `None`: this store knows no installations.
    async fn adopt(&self, adoption: Adoption, by: Option<&str>) -> Result<Option<Installation>> {
        let _ = (adoption, by);
        Ok(None)
    }
}

/// Fails, and says what to do, unless the schema has all that this build needs, and nothing that it does not run with.
pub async fn check_schema(store: &dyn Schema) -> Result<()> {
    migration::check(&store.migration_status().await?, &store.describe())
}
