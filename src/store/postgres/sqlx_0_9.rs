//! PostgreSQL with transactions of [sqlx](https://docs.rs/sqlx) 0.9.
//!
//! Contexts, handlers and enlisted transactions have connections of the application's `PgPool`. The engine keeps its own, by `tokio-postgres`: it
//! claims jobs, renews leases and listens there, as it does for [`Postgres`](crate::Postgres). Both run the same statements, and nothing counts
//! as committed that is not (docs/commits.md). Like sqlx 0.9, it takes Rust 1.94.
//!
//! ```no_run
//! use jobwright::sqlx_0_9::Sqlx;
//! use jobwright::{Command, CommandExecutor, DatabaseConfig, JobContext, JobError, MessageServices, Outcome};
//! use serde::{Deserialize, Serialize};
//! # use sqlx_0_9 as sqlx;
//!
//! #[derive(Serialize, Deserialize)]
//! struct SendInvoice { order: i64 }
//!
//! impl Command<Sqlx> for SendInvoice {
//!     const KIND: &'static str = "send-invoice";
//!     type State = ();
//!
//!     async fn execute(self, cx: &mut JobContext<'_, (), Sqlx>) -> Result<Outcome, JobError> {
//!         // One commit: this update, the messages that the handler sends, and the removal of its job.
//!         sqlx::query("update orders set invoiced = true where id = $1")
//!             .bind(self.order)
//!             .execute(&mut **cx.transaction().await?)
//!             .await?;
//!         Ok(Outcome::Done)
//!     }
//! }
//!
//! # async fn tour() -> Result<(), Box<dyn std::error::Error>> {
//! let url = "postgres://app@localhost/app";
//! let pool = sqlx::PgPool::connect(url).await?;
//! let messages = MessageServices::sqlx_0_9(pool.clone(), &DatabaseConfig::url(url)).await?;
//! messages.migrate().await?;
//!
//! // In a transaction of your own:
//! let mut transaction = pool.begin().await?;
//! sqlx::query("insert into orders (id) values (42)").execute(&mut *transaction).await?;
//! let mut enlisted = messages.enlist(&mut transaction);
//! enlisted.send(SendInvoice { order: 42 })?;
//! let flushed = enlisted.flush().await?;
//! transaction.commit().await?; // the order and its job, or neither
//! flushed.committed();
//!
//! let executor = CommandExecutor::builder(messages).command::<SendInvoice>().start().await?;
//! # Ok(()) }
//! ```

#[path = "sqlx/mod.rs"]
mod transactions;

use std::sync::Arc;

// From the crate below, since `sqlx` has it no longer: without it a connection on which a statement may still run could not be closed.
use sqlx_0_9 as sqlx;
use sqlx_core_0_9::transaction::TransactionManager;

pub(crate) use self::transactions::driver_kind;
pub use self::transactions::{Sqlx, SqlxTransaction, SqlxTransactionRef};

/// Returns the text of a statement as this version takes it. Content comes in parameters.
fn text(sql: &Arc<str>) -> sqlx::AssertSqlSafe<Arc<str>> {
    sqlx::AssertSqlSafe(sql.clone())
}

/// Returns the text of a statement that begins a transaction as this version takes it.
fn begin(sql: &'static str) -> sqlx::SqlStr {
    sqlx::SqlStr::from_static(sql)
}
