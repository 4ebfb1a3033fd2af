//! A database as programs hold it: with the transaction of its driver.

use std::sync::Arc;

use super::{JobStore, UnitOfWork};
use crate::error::Result;

/// A database that stores jobs, with the transaction type of its driver.
pub trait Store: Clone + Send + Sync + 'static {
    /// An open transaction that belongs to a context.
    type Transaction: UnitOfWork;

    /// Opens a transaction.
    fn begin(&self) -> impl Future<Output = Result<Self::Transaction>> + Send;

    /// Returns the engine's side of the same database.
    #[doc(hidden)]
    fn engine(&self) -> Arc<dyn JobStore>;
}

/// An open transaction of a store as it is lent to message services, whoever began it and will end it.
pub type TransactionRef<'t, S> = <<S as Store>::Transaction as UnitOfWork>::Ref<'t>;
