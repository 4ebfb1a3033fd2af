//! A job queue in your own database: PostgreSQL, or a file of SQLite.
//!
//! A *job* is a row: a kind, a payload, and options that say where and how it runs. Jobs are sent through a [`Context`], a unit of work
//! that collects messages and flushes them in the same transaction as your own writes. So a job exists if, and only if, the change that
//! caused it was committed. There is no window in which one exists without the other.
//!
//! A [`CommandExecutor`] claims jobs in batches, runs their handlers, and records the outcomes. A handler that uses its context's
//! transaction commits three things together: its own writes, the messages it sent, and the removal of its job. Every claim issues a new
//! fencing token, and every outcome must name the current one. An executor that was paused, partitioned or declared dead may still run, but
//! it commits nothing.
//!
//! ```rust,no_run
//! use std::time::Duration;
//!
//! use jobwright::{Command, CommandExecutor, DatabaseConfig, JobContext, JobError, MessageServices, Outcome};
//!
//! #[derive(serde::Serialize, serde::Deserialize)]
//! struct SendInvoice { order: i64 }
//!
//! impl Command for SendInvoice {
//!     const KIND: &'static str = "send-invoice";
//!     type State = ();
//!
//!     async fn execute(self, cx: &mut JobContext<'_>) -> Result<Outcome, JobError> {
//!         println!("invoicing order {}", self.order);
//!         cx.transaction().await?.execute("update orders set invoiced = true where id = $1", &[&self.order]).await?;
//!         Ok(Outcome::Done)                                  // this write and the removal of the job commit together
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let messages = MessageServices::postgres(&DatabaseConfig::url(std::env::var("DATABASE_URL")?)).await?;
//!     messages.migrate().await?;                             // creates jobwright's tables
//!     let executor = CommandExecutor::builder(messages.clone()).command::<SendInvoice>().start().await?;
//!
//!     let mut cx = messages.begin();
//!     let tx = cx.transaction().await?;
//!     tx.batch_execute("create table if not exists orders (id bigserial primary key, invoiced bool default false)").await?;
//!     let order: i64 = tx.query_one("insert into orders default values returning id", &[]).await?.get("id");
//!     cx.send(SendInvoice { order })?;
//!     cx.commit().await?;                                    // the order and its job, or neither
//!
//!     tokio::signal::ctrl_c().await?;                        // it runs jobs until then
//!     executor.shutdown(Duration::from_secs(30)).await?;
//!     Ok(())
//! }
//! ```
//!
//! # Where to look
//!
//! | for | see |
//! |---|---|
//! | connecting, sending, migrating | [`MessageServices`], [`DatabaseConfig`] |
//! | units of work, and transactions that you own | [`Context`], [`MessageServices::enlist`], [`MessageServices::as_sql`] |
//! | jobs and their payloads | [`NewJob`], [`Payload`], [`Command`] |
//! | running jobs, and their outcomes | [`CommandExecutor`], [`ExecutorBuilder`], [`JobContext`], [`Outcome`], [`JobError`] |
//! | attempts and delays | [`RetryPolicy`], [`KindOptions`] |
//! | repeating jobs | [`Schedule`], [`NewSchedule`], through [`MessageServices::schedules`] |
//! | inspecting and operating jobs | [`admin`], through [`MessageServices::admin`] |
//! | numbers and health of an executor, for metrics and probes | [`telemetry`] |
//! | errors | [`Error`], [`ErrorKind`] |
//! | testing a program that uses jobwright | [`testing`] |
//! | encrypted or compressed payloads | [`codec`] |
//! | the extension point: message services | [`MessageService`] |
//!
//! # Which database
//!
//! Contexts, commands and executors are generic over their store, with [`Postgres`] as the default, so a transaction is the driver's own.
//! `Sqlite` is the embedded store (feature `sqlite`). [`AnyStore`] is chosen by the URL at run time ([`MessageServices::connect`]).
//!
//! # Features
//!
//! None is on by default: PostgreSQL needs none.
//!
//! | feature | turns on |
//! |---|---|
//! | `rabbitmq` | delivery through RabbitMQ, submissions, events, external workers (`MessageServices::with_broker`) |
//! | `sqlite` | the embedded store. It compiles SQLite, which needs a C compiler, and links it as `rusqlite` does: beside another crate that links SQLite, as `sqlx` does with its default features, cargo refuses to resolve |
//! | `sqlx-0_8`, `sqlx-0_9` | transactions of sqlx 0.8 or 0.9 for contexts, handlers and `enlist` (`sqlx_0_8`, `sqlx_0_9`); that for 0.9 takes Rust 1.94 |
//! | `codecs` | the codecs that encrypt and compress payloads |
//!
//! A configuration that asks for a feature which the build lacks is an error.
//!
//! # Guarantees
//!
//! * A committed job is kept: it runs until it is done, cancelled, or a dead letter with its reason. No crash removes it.
//! * A rollback leaves no trace: there is no row and no wake-up before the transaction has really committed. A commit that the
//!   server turned into a rollback is an error.
//! * Handlers run at least once and commit once. An effect of a handler outside its transaction can happen again.
//! * Every wait has a deadline.

#![warn(missing_debug_implementations)]
// Jobs, the seam of the stores and nodes have parts that only a broker needs. The build with all features finds what nothing uses.
#![cfg_attr(not(feature = "rabbitmq"), allow(dead_code, unused_imports))]

pub mod admin;
pub(crate) mod backoff;
#[cfg(feature = "rabbitmq")]
mod broker;
#[cfg(not(feature = "rabbitmq"))]
#[path = "broker/absent.rs"]
mod broker;
pub mod codec;
mod config;
mod conflict;
mod context;
mod error;
mod executor;
pub mod headers;
#[doc(hidden)]
pub mod internal;
mod job;
mod message;
mod panic;
mod small_file;
mod store;
pub mod telemetry;
pub mod testing;
mod tls;

/// For implementations of [`MessageService`].
pub use async_trait::async_trait;
#[cfg(feature = "rabbitmq")]
pub use broker::Broker;
pub use broker::{BrokerMode, BrokerStats, ModeChanges};
pub use config::{
    BrokerConfig, Config, DatabaseConfig, ExecutorConfig, HistoryConfig, Keep, QueueType, Secret, SubmitRule,
    SubmitRules,
};
pub use context::Context;
pub use error::{BoxError, Error, ErrorKind, Result};
pub use executor::{
    Batch, BatchOptions, BatchOutcomes, Classifier, Command, CommandExecutor, ExecutorBuilder, ExecutorStats,
    ExternalQueue, JobContext, KindOptions, Middleware, Next,
};
pub use job::{
    AttemptError, DEFAULT_MAX_ATTEMPTS, DEFAULT_QUEUE, Due, IntoJob, Job, JobError, JobId, JobMessage, JobOptions,
    Misfire, NewJob, NewSchedule, NodeId, Outcome, Overlap, Payload, RetryAdvice, RetryPolicy, Schedule, ScheduleSpec,
    TraceContext, Unique, UniqueConflict, UniqueHold, UniqueOptions,
};
pub use message::{
    Awaited, CommitReceipt, Enlisted, FlushInto, Flushed, MessageService, MessageServices, RouteCounts,
    ScheduleService, SqlStatement, WhenFull, Written,
};
#[cfg(feature = "sqlx-0_8")]
pub use store::postgres::sqlx_0_8;
#[cfg(feature = "sqlx-0_9")]
pub use store::postgres::sqlx_0_9;
pub use store::postgres::{PgTransaction, PgTransactionRef};
#[cfg(feature = "sqlite")]
pub use store::sqlite::{Sqlite, SqliteTransaction};
pub use store::{AnyStore, AnyTransaction, AnyTransactionRef, JobResult, Postgres, Store, TransactionRef};
