//! jobwright

pub(crate) mod backoff;
pub mod config;
mod context;
pub mod error;
pub mod executor;
pub mod job;
pub mod message;
pub mod store;

pub use config::{Config, DatabaseConfig, ExecutorConfig, Secret};
pub use context::Context;
pub use error::{Error, ErrorKind, Result};
pub use executor::{Command, CommandExecutor, ExecutorBuilder, ExecutorStats, JobContext, KindOptions};
pub use job::*;
pub use message::{Enlisted, Flushed, MessageService, MessageServiceFactory, MessageServices};
pub use store::postgres::{PgTransaction, Postgres};
#[cfg(feature = "sqlite")]
pub use store::sqlite::{Sqlite, SqliteTransaction};
pub use store::{AnyStore, AnyTransaction, JobStore, Store};
