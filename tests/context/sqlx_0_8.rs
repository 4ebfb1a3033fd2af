//! Transactions of sqlx 0.8.

#[path = "sqlx_transactions.rs"]
mod transactions;

use crate::support::sqlx_0_8 as version;
