//! Transactions of sqlx 0.9.

#[path = "sqlx_transactions.rs"]
mod transactions;

use crate::support::sqlx_0_9 as version;
