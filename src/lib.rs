//! jobwright

pub(crate) mod backoff;
pub mod config;
pub mod error;
pub mod job;
pub mod store;

pub use error::{Error, ErrorKind, Result};
pub use config::{Config, DatabaseConfig, ExecutorConfig, Secret};
pub use job::*;
pub use store::postgres::{PgTransaction, Postgres};
pub use store::{JobStore, Store};
