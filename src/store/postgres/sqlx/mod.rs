//! Transactions of [sqlx](https://docs.rs/sqlx): a second driver for the application's side of a PostgreSQL database.
//!
//! Contexts, handlers and enlisted transactions have connections of the application's `PgPool`. The engine keeps its own, by `tokio-postgres`: it
//! claims jobs, renews leases and listens there, as it does for [`Postgres`](crate::Postgres). Both run the same statements
//! (`in_transaction.rs`), and a commit is proven in the same way.
//!
//! Each version of sqlx is a feature, because its types are not those of the next. The files here are compiled once for each; what differs is in the
//! file of the version.

#[cfg(feature = "sqlx-0_8")]
pub mod v0_8;
