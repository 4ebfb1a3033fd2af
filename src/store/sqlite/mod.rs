//! The embedded store: SQLite, in a file that may be the application's own.
//!
//! One connection writes, since SQLite allows only one writer anyway. Callers in this process queue for it fairly. Every transaction begins
//! with the write lock held, so that none can fail half-way for lack of it. Two more connections read: one for the engine and one for
//! operators. Other processes on the same host may use the same file.

mod admin;
mod admission;
mod aging;
mod audit;
mod claim;
mod clock;
mod database;
mod error;
mod expiring;
mod external;
mod filter;
mod hints;
mod history;
mod identity;
mod insert;
mod installation;
mod job_columns;
mod job_operations;
mod kinds;
mod lent;
mod liveness_files;
mod maintenance;
mod migrate;
mod new_row;
mod nodes;
mod open;
mod outcomes;
mod place;
mod queue_capacity;
mod receive;
mod reconcile;
mod retry;
mod rows;
mod rules;
mod schedules;
mod serial_connection;
mod session;
mod settle;
mod shared;
mod statements;
mod status;
mod testing;
#[cfg(test)]
mod tests;
mod transaction;
mod unique;
mod unreadable;
mod why;
mod writer;

pub use self::database::Sqlite;
pub(crate) use self::error::driver_kind;
#[doc(hidden)]
pub use self::migrate::MIGRATIONS;
pub(crate) use self::queue_capacity::refuse_full;
pub use self::transaction::SqliteTransaction;
