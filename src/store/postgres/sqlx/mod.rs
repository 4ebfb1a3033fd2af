//! Transactions of sqlx. This folder is compiled once for each version of sqlx, as a child of the module that says which one `sqlx` is: their types are
//! different types, and a program may have both.

mod driver;
mod lent;
mod probe;
mod probed;
mod store;
mod transaction;

use super::{TransactionManager, begin, sqlx, text};

pub(crate) use self::driver::driver_kind;
pub use self::lent::SqlxTransactionRef;
pub use self::store::Sqlx;
pub use self::transaction::SqlxTransaction;
