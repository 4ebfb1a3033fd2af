//! A test kit for programs that use jobwright: it checks which jobs were sent, and runs them without an executor in the background.
//!
//! | for | see |
//! |---|---|
//! | a separate database for each test, removed at its end | [`TestDatabase`] |
//! | what a piece of code sends, before anything is stored | [`assert_sent`] |
//! | what is stored | [`TestDatabase::sent`] |
//! | running jobs step by step, with the executor's own code | [`Runner`] |
//! | running a handler inside the test's own transaction, without a trace | [`Runner::work_in`] |
//! | code under test whose commits run the jobs at once | [`Inline`] |
//! | time, and schedules that come due in it | [`Runner::drain_through`], [`TestDatabase::travel`] |
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # async fn test() -> Result<(), Box<dyn std::error::Error>> {
//! use jobwright::testing::{TestDatabase, assert_sent};
//! use jobwright::{CommandExecutor, NewJob, Outcome};
//!
//! let db = TestDatabase::sqlite().await?;
//! let mut cx = db.messages().begin();
//! cx.send(NewJob::json("greet", "Ada"))?;
//! assert_sent(&cx).kind("greet").json("Ada").once();
//! cx.commit().await?;
//!
//! let mut runner = db.runner(|executor| executor.handle("greet", |_| async { Ok(Outcome::Done) })).await?;
//! runner.drain().await?.expect_done();
//! # Ok(()) }
//! # #[cfg(feature = "sqlite")]
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(test()).unwrap();
//! ```
//!
//! The guide is `docs/testing.md`.

mod conditions;
mod database;
mod describe;
mod inline;
mod location;
mod runner;
mod schedules;
mod sent;
mod store;
mod summary;

pub use self::database::TestDatabase;
pub use self::inline::Inline;
pub use self::runner::Runner;
pub use self::schedules::Occurrence;
pub use self::sent::{Pending, Sent, Stored, assert_sent};
pub use self::store::TestStore;
pub use self::summary::{JobRun, RunOutcome, Summary};
