use std::sync::Arc;

use super::{GroupClaim, Inserted, JobStore, JobWriter, NewResult, Postgres, Preclaim, Removed, Store, UnitOfWork};
use crate::config::{Backend, DatabaseConfig};
use crate::error::Result;
use crate::job::{ClaimNumber, Fence, JobMessage, NodeId};
use crate::{PgTransaction, PgTransactionRef};
#[cfg(feature = "sqlite")]
use crate::{Sqlite, SqliteTransaction};

/// A store that is chosen at run time, by the URL in the configuration. It suits programs that mostly send and run commands: code that
/// writes through the transaction has to check which store it is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyStore {
    /// A PostgreSQL server.
    Postgres(Postgres),
    /// An embedded database.
    #[cfg(feature = "sqlite")]
    Sqlite(Sqlite),
}

impl AnyStore {
    /// Connects to the server or opens the file that the URL names.
    ///
    /// # Errors
    /// When the configuration is invalid, or the database can't be reached.
    pub async fn connect(config: &DatabaseConfig) -> Result<Self> {
        match config.backend()? {
            Backend::Postgres(_) => Postgres::connect(config).await.map(Self::Postgres),
            #[cfg(feature = "sqlite")]
            Backend::Sqlite(_) => Sqlite::open(config).await.map(Self::Sqlite),
            #[cfg(not(feature = "sqlite"))]
            Backend::Sqlite(_) => Err(crate::Error::config(
                "this program was built without the embedded store (feature `sqlite`): use a `postgres://` URL",
            )),
        }
    }

    /// Returns whether it is the embedded database, whose schema no other program migrates.
    #[doc(hidden)]
    pub fn is_embedded(&self) -> bool {
        !matches!(self, Self::Postgres(_))
    }
}

impl Store for AnyStore {
    type Transaction = AnyTransaction;

    async fn begin(&self) -> Result<AnyTransaction> {
        match self {
            Self::Postgres(store) => store.begin().await.map(AnyTransaction::Postgres),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store) => store.begin().await.map(AnyTransaction::Sqlite),
        }
    }

    fn engine(&self) -> Arc<dyn JobStore> {
        match self {
            Self::Postgres(store) => store.engine(),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store) => store.engine(),
        }
    }
}

/// A transaction of an [`AnyStore`].
#[derive(Debug)]
#[cfg_attr(
    feature = "sqlite",
    expect(
        clippy::large_enum_variant,
        reason = "one lives in a context at a time, and the large one is the common one"
    )
)]
#[non_exhaustive]
pub enum AnyTransaction {
    /// A transaction of a PostgreSQL server.
    Postgres(PgTransaction),
    /// A transaction of an embedded database.
    #[cfg(feature = "sqlite")]
    Sqlite(SqliteTransaction),
}

/// A transaction of an [`AnyStore`] that is lent to a [message service](crate::MessageService).
#[derive(Debug)]
#[non_exhaustive]
pub enum AnyTransactionRef<'t> {
    /// A transaction of a PostgreSQL server.
    Postgres(PgTransactionRef<'t>),
    /// A transaction of an embedded database.
    #[cfg(feature = "sqlite")]
    Sqlite(&'t mut SqliteTransaction),
}

impl JobWriter for AnyTransactionRef<'_> {
    async fn insert(&mut self, messages: &[JobMessage], owned: Option<&Preclaim>) -> Result<Inserted> {
        match self {
            Self::Postgres(transaction) => transaction.insert(messages, owned).await,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(transaction) => JobWriter::insert(transaction, messages, owned).await,
        }
    }
}

impl UnitOfWork for AnyTransaction {
    type Ref<'t> = AnyTransactionRef<'t>;

    fn lend(&mut self) -> AnyTransactionRef<'_> {
        match self {
            Self::Postgres(transaction) => AnyTransactionRef::Postgres(transaction.lend()),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(transaction) => AnyTransactionRef::Sqlite(transaction),
        }
    }

    async fn remove(&mut self, node: NodeId, fence: Fence) -> Result<bool> {
        match self {
            Self::Postgres(transaction) => transaction.remove(node, fence).await,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(transaction) => transaction.remove(node, fence).await,
        }
    }

    async fn remove_and_lease(
        &mut self,
        node: NodeId,
        fence: Fence,
        claim_next: &GroupClaim,
        claim: ClaimNumber,
    ) -> Result<Removed> {
        match self {
            Self::Postgres(transaction) => transaction.remove_and_lease(node, fence, claim_next, claim).await,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(transaction) => transaction.remove_and_lease(node, fence, claim_next, claim).await,
        }
    }

    async fn remove_all(&mut self, node: NodeId, fences: &[Fence]) -> Result<bool> {
        match self {
            Self::Postgres(transaction) => transaction.remove_all(node, fences).await,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(transaction) => transaction.remove_all(node, fences).await,
        }
    }

    async fn keep_result(&mut self, result: &NewResult) -> Result<()> {
        match self {
            Self::Postgres(transaction) => transaction.keep_result(result).await,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(transaction) => transaction.keep_result(result).await,
        }
    }

    async fn commit(self) -> Result<()> {
        match self {
            Self::Postgres(transaction) => transaction.commit().await,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(transaction) => transaction.commit().await,
        }
    }

    async fn rollback(self) -> Result<()> {
        match self {
            Self::Postgres(transaction) => transaction.rollback().await,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(transaction) => transaction.rollback().await,
        }
    }
}
