//! The PostgreSQL store.
//!
//! It has two pools: one for contexts, through whose connections users write, and a small one for the engine. Handlers that use up the
//! first never stop a heartbeat. A third kind of connection, outside both pools, listens for hints.
//!
//! Every call is one statement. Those of a topic are sections of the file of SQL beside its Rust file (`statements.rs`). A statement is prepared
//! once per connection, or unnamed behind a transaction pooler. It has a deadline on both sides: the client's, and the server's
//! `statement_timeout`.

mod admin;
mod admission;
mod aging;
mod around;
mod audit;
mod cancel;
mod checks;
mod claim;
mod client;
mod clock;
mod columns;
mod commit_status;
mod conn;
mod connect;
mod counting;
mod database;
mod depth_cache;
mod driver;
mod driver_error;
mod engine_transaction;
mod error;
mod expiring;
mod external;
mod filter;
mod group_claim;
mod halves;
mod held;
mod hints;
mod idle_timers;
mod in_transaction;
mod insert;
mod installation;
mod job_columns;
mod job_operations;
mod kinds;
mod lent;
mod lock_holder;
mod lock_watch;
mod maintenance;
mod migrate;
mod nodes;
mod options;
mod outcomes;
mod parameters;
mod parts;
mod passed_over;
mod pool;
mod primaries;
mod qualify;
mod range;
mod receive;
mod reconcile;
mod retry;
mod rows;
mod rules;
mod schedules;
mod send;
mod server;
mod settle;
mod shared;
mod shared_cursor;
// The same files below each: see `sqlx/mod.rs`.
mod sql_workers;
#[cfg(feature = "sqlx-0_8")]
#[allow(clippy::duplicate_mod)]
pub mod sqlx_0_8;
#[cfg(feature = "sqlx-0_9")]
#[allow(clippy::duplicate_mod)]
pub mod sqlx_0_9;
mod statements;
mod status;
pub(crate) mod testing;
mod tls;
mod transaction;
mod types;
mod unique;
mod unreadable;
mod vacuum;
mod walk;
mod why;

pub use self::database::Postgres;
pub(crate) use self::driver_error::driver_kind;
pub use self::lent::PgTransactionRef;
pub use self::primaries::Primary;
pub(in crate::store) use self::statements::all_statements;
pub use self::transaction::PgTransaction;
