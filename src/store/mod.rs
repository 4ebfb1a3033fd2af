//! The seam between the engine and a database.
//!
//! [`JobStore`] is what an executor, a lock monitor and an operator need: every method is one transaction, works on a batch
//! where batches pay, and has a deadline. [`Store`] adds what is typed by the driver: the transaction a context hands to
//! its user. `tests/conformance` runs against every implementation and against an oracle in memory; it is the
//! specification where this text leaves a doubt.
//!
//! What all implementations keep (the laws of docs/architecture.md):
//!
//! * a claim raises `version` and `attempt` of each row it takes, and takes nothing for a node that is not alive;
//! * an outcome names a [`Fence`] and the node, and changes nothing unless both are current;
//! * ownership, due dates, leases and order are decided by the database's clock and sequence alone;
//! * a job is in exactly one of the tables `job`, `blocked_job`, `external_job`, `timer_job`, `suspended_job` and `dead_letter_job`, or gone.

mod admin;
pub(crate) mod admission;
mod any;
pub(crate) mod backlog;
mod broker;
mod claiming;
mod expiring;
mod filter;
mod groups;
mod hint;
mod history;
pub mod migration;
pub mod postgres;
mod progress;
mod rules;
pub mod schedules;
mod settle;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub(crate) mod steering;
#[doc(hidden)]
pub mod testing;
pub(crate) mod unique;
mod upkeep;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use self::admin::{JobDetail, JobState, JobSummary, NodeStatus, Page, QueueStatus, StatusReport, Steered};
pub use self::admission::{Admission, AdmitRequest, Admitted, Overdue};
pub use self::any::{AnyStore, AnyTransaction};
pub use self::backlog::{Backlog, FullQueue};
pub use self::broker::{Extension, ExternalDone, Received};
pub use self::claiming::{ClaimRequest, Claimed, ScanFront, ScanMark, ScanPart};
pub use self::expiring::{Expired, Expiring};
pub use self::filter::{JobFilter, RetryOptions, TimeRange};
pub use self::groups::{DeadGroup, DeadGroups, normalise};
pub use self::hint::{Hint, HintStream};
pub use self::history::{Ending, History, HistoryEntry, HistoryFilter, JobResult};
pub use self::migration::{Migration, MigrationStatus};
pub use self::postgres::Postgres;
pub(crate) use self::progress::{CHECKPOINT_MAX, NOTE_MAX};
pub use self::progress::{JobProgress, Progress, ProgressUpdate};
pub use self::rules::{EACH, Rate, Rule, RuleEdit, Rules, Scope, ShareBy, Shares};
pub use self::schedules::Schedules;
pub use self::settle::{Settlement, Verdict, clip};
pub use self::steering::{Action, AuditEntry, AuditFilter, Change, Due, Note, Order, Steering};
pub use self::upkeep::{Upkeep, UpkeepDue};
use crate::error::Result;
use crate::job::{Fence, Job, JobId, JobMessage, NodeId, RowPlace, Submission};

/// A database that can keep jobs, with the transaction type of its driver.
pub trait Store: Clone + Send + Sync + 'static {
    /// An open transaction that belongs to a context.
    type Transaction: UnitOfWork;

    /// Opens a transaction.
    fn begin(&self) -> impl Future<Output = Result<Self::Transaction>> + Send;

    /// The engine's side of the same database.
    fn jobs(&self) -> Arc<dyn JobStore>;
}

/// What a context does with its open transaction. Dropping it rolls back.
pub trait UnitOfWork: Send + 'static {
    /// Inserts the messages with one statement, however many they are. See [`JobStore::insert`].
    fn insert(
        &mut self,
        messages: &[JobMessage],
        owned: Option<&Preclaim>,
    ) -> impl Future<Output = Result<Inserted>> + Send;

    /// Removes the job whose handler used this transaction. `false`: the claim is no longer current, and the transaction must
    /// be rolled back.
    fn remove(&mut self, node: NodeId, fence: Fence) -> impl Future<Output = Result<bool>> + Send;

    /// The same for jobs whose handler took them together. `false`: not all claims are current. No job may be named twice.
    fn remove_all(&mut self, node: NodeId, fences: &[Fence]) -> impl Future<Output = Result<bool>> + Send {
        async move {
            for fence in fences {
                if !self.remove(node, *fence).await? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }

    /// Keeps the result of the job that was removed, for this long. See [`History::result`].
    fn keep_result(&mut self, result: &NewResult) -> impl Future<Output = Result<()>> + Send;

    /// Commits and proves it: returns `Ok` only if the server really committed.
    fn commit(self) -> impl Future<Output = Result<()>> + Send;

    /// Rolls back, waiting for it.
    fn rollback(self) -> impl Future<Output = Result<()>> + Send;
}

/// What a handler returned, to be kept with the end of its job.
#[derive(Clone, Debug)]
pub struct NewResult {
    /// Whose.
    pub id: JobId,
    /// The job's kind.
    pub kind: String,
    /// The result.
    pub payload: Box<serde_json::value::RawValue>,
    /// For how long.
    pub retention: Duration,
}

/// Asks for messages to be inserted as already owned: the hot path of a process that has a free slot for them.
#[derive(Clone, Debug)]
pub struct Preclaim {
    /// The owner. If it is not alive the rows are inserted as waiting.
    pub node: NodeId,
    /// The messages (by position) for which a slot is reserved. Only jobs due now can be owned.
    pub positions: Vec<usize>,
}

/// What an insert did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inserted {
    /// Rows written. Less than the number of messages when a given id existed already.
    pub rows: u64,
    /// The jobs that are now owned by the node of the [`Preclaim`].
    pub owned: Vec<OwnedInsert>,
    /// Unique messages that were not written, because another job holds their key: their id, and that of the other.
    pub kept: Vec<(JobId, JobId)>,
}

/// A job inserted as already owned, with what only the database knows about it. Its version and attempt are 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedInsert {
    /// Which.
    pub id: JobId,
    /// Its place in the order.
    pub seq: i64,
    /// When, by the database's clock.
    pub created_at: jiff::Timestamp,
    /// Where its row is.
    pub place: RowPlace,
}

/// How a node presents itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// A name for people, such as `billing` or `host:pid`. Need not be unique.
    pub name: String,
    /// Host name.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// How long a heartbeat lasts. At least 1 s.
    pub lease: Duration,
}

/// What became of a dead node's job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// Back to waiting.
    pub waiting: u64,
    /// Out of attempts: dead letters now.
    pub dead: u64,
}

impl Released {
    /// How many rows were released altogether.
    pub fn total(self) -> u64 {
        self.waiting + self.dead
    }
}

/// What a promotion of due timers did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Promoted {
    /// Jobs that are waiting now.
    pub jobs: u64,
    /// The queues they wait in.
    pub queues: Vec<String>,
    /// Some of them wait for admission.
    pub blocked: bool,
    /// When the next timer is due, counted from now; `None` = there is none.
    pub next: Option<Duration>,
}

/// The engine's view of a database: everything but the user's own transactions.
///
/// Each method is one transaction and has a deadline. `Err` with [`is_retryable`](crate::Error::is_retryable) means that
/// the same call may be made again; all of them are safe to repeat.
#[async_trait]
pub trait JobStore:
    Admission + Backlog + Expiring + History + Progress + Rules + Schedules + Steering + Upkeep + fmt::Debug + 'static
{
    /// What and where, for logs: no password.
    fn describe(&self) -> String;

    /// Another handle on the same database with connections of its own, usable on another runtime: a heartbeat must not
    /// wait behind anything that blocks the application's runtime.
    async fn detached(&self) -> Result<Arc<dyn JobStore>>;

    // -- schema

    /// Applies what is missing. Safe when many processes start at once; refuses a schema that is newer than this build.
    async fn migrate(&self) -> Result<Vec<MigrationStatus>>;

    /// What is applied and what is missing, without changing anything.
    async fn migration_status(&self) -> Result<Vec<MigrationStatus>>;

    /// Fails with what to do unless the schema is exactly what this build needs.
    async fn check_schema(&self) -> Result<()> {
        migration::check(&self.migration_status().await?, &self.describe())
    }

    // -- sending

    /// Inserts messages in a transaction of their own, with one statement. A message whose given id exists in any state is
    /// skipped, and so is a unique one whose key is held. Due later = `timer_job`.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when a unique message is to be rejected; then nothing was written.
    async fn insert(&self, messages: &[JobMessage], owned: Option<&Preclaim>) -> Result<Inserted>;

    /// Tells other processes that there is work in these queues. A hint: it may get lost.
    async fn notify(&self, hints: &[Hint]) -> Result<()>;

    /// Receives hints until the connection breaks. `None` at once: this store has no way to hear of them; poll.
    async fn listen(&self) -> Result<Option<Box<dyn HintStream>>>;

    // -- running

    /// Takes up to `limit` waiting jobs for a node, best first, raising their `version` and `attempt`. Empty if the node is
    /// not alive.
    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claimed>;

    /// Removes finished jobs. Returns those that were accepted; the others were no longer owned by this claim.
    async fn complete(&self, node: NodeId, fences: &[Fence]) -> Result<Vec<JobId>>;

    /// Records outcomes other than success. Returns those that were accepted.
    async fn settle(&self, node: NodeId, settlements: &[Settlement]) -> Result<Vec<JobId>>;

    /// Moves due timers to waiting, in batches of at most `limit`.
    async fn promote_due(&self, limit: usize) -> Result<Promoted>;

    // -- nodes

    /// Registers a new incarnation and starts its lease.
    async fn register_node(&self, node: &NodeInfo) -> Result<NodeId>;

    /// Renews the lease. `false`: the node was declared dead, or is unknown; nothing revives it.
    async fn heartbeat(&self, node: NodeId) -> Result<bool>;

    /// Removes a node that stopped in good order. Waits for claims of it that are still under way on the server, then gives
    /// back whatever it owns, at no attempt. Returns how many jobs that were.
    async fn retire_node(&self, node: NodeId) -> Result<u64>;

    /// Declares nodes dead whose lease ran out. Returns all that are dead and not forgotten yet, also those that another
    /// monitor declared dead and may not have finished with.
    async fn expire_nodes(&self) -> Result<Vec<NodeId>>;

    /// Releases at most `limit` jobs that dead nodes own, each with the error `owner lost` on its record and its attempt
    /// spent; forgets dead nodes that own nothing any more. Call until [`Released::total`] is less than `limit`.
    ///
    /// A job whose record shows `quarantine` such deaths since it was sent, or since it was last a dead letter, becomes one,
    /// whatever attempts remain: `quarantined: its process died N times while it ran`. `None` = never.
    async fn release_lost(&self, limit: usize, quarantine: Option<NonZeroU32>) -> Result<Released>;

    /// Gives back what a node owns without knowing it, at no attempt: the answer to a claim or to a commit got lost. `known`
    /// must hold every job the node has in hand, and no claim may be under way.
    async fn release_unknown(&self, node: NodeId, known: &[JobId]) -> Result<u64>;

    // -- delivering

    /// Takes the rows that deliveries name, held or not, if they still are what the delivery says: waiting, of that version,
    /// and of one of `kinds` (`None` = any). Raises `version` and `attempt` like [`claim`](Self::claim).
    async fn claim_delivered(&self, node: NodeId, deliveries: &[Fence], kinds: Option<&[String]>) -> Result<Vec<Job>>;

    /// Ends the head start of deliveries that will not arrive. Returns the queues whose rows can be claimed now.
    async fn unhold(&self, ids: &[JobId]) -> Result<Vec<String>>;

    /// Shows how a node stands with the broker; `None` = it has none.
    async fn report_broker(&self, node: NodeId, mode: Option<&str>) -> Result<()>;

    // -- external workers

    /// Moves up to `limit` waiting jobs of a queue, best first, into the hands of external workers, each with a lease; raises
    /// their `version` and `attempt`.
    async fn hand_out(&self, queue: &str, limit: usize, lease: Duration) -> Result<Vec<Job>>;

    /// Makes jobs wait again that were handed out and did not arrive; their attempt is given back.
    async fn take_back(&self, fences: &[Fence]) -> Result<u64>;

    /// Removes jobs that external workers have done. One that asked for a reply leaves a row in
    /// [`REPLY_QUEUE`](crate::REPLY_QUEUE). Returns those that were accepted.
    async fn complete_external(&self, done: &[ExternalDone]) -> Result<Vec<JobId>>;

    /// Records other outcomes of external workers, as [`settle`](Self::settle) does.
    async fn settle_external(&self, settlements: &[Settlement]) -> Result<Vec<JobId>>;

    /// Renews leases of external workers. Returns those that were accepted.
    async fn extend_external(&self, extensions: &[Extension]) -> Result<Vec<JobId>>;

    /// Releases at most `limit` jobs whose external worker let its lease run out; the attempt is spent.
    async fn expire_external(&self, limit: usize) -> Result<Released>;

    // -- foreign producers

    /// Stores what foreign producers submitted, and remembers each id with the digest of its message, in one transaction. The
    /// answers are in the order of the submissions; the same id twice in a batch is judged in that order too.
    async fn receive(&self, submissions: &[Submission]) -> Result<Vec<Received>>;

    /// Forgets at most `limit` ids of submissions older than `age`. Returns how many.
    async fn prune_submissions(&self, age: Duration, limit: usize) -> Result<u64>;

    // -- operating

    /// Counts, nodes and ages.
    async fn status(&self) -> Result<StatusReport>;

    /// Jobs that match, oldest first, at most `page.limit`, starting after `page.after`.
    async fn list(&self, filter: &JobFilter, page: &Page) -> Result<Vec<JobSummary>>;

    /// Everything known about one job.
    async fn show(&self, id: JobId) -> Result<Option<JobDetail>>;

    /// Makes dead letters and timers that match wait again at once; a dead letter starts again with no attempts spent and
    /// keeps its errors; one with a time to live lives as long again. Wakes nobody: executors find the jobs at their next look.
    async fn retry(&self, filter: &JobFilter, dry_run: bool) -> Result<Steered> {
        self.retry_with(filter, &RetryOptions { dry_run, ..RetryOptions::default() }).await
    }

    /// The same for some of them, or for all but not all at once: what is spread over a time becomes a timer, and a timer is never
    /// put off by it.
    async fn retry_with(&self, filter: &JobFilter, options: &RetryOptions) -> Result<Steered> {
        let RetryOptions { dry_run, limit, spread } = *options;
        self.steer(filter, &Action::Retry { limit, spread }, Order { dry_run, by: None }).await
    }

    /// What dead letters that match died of, at most `limit` groups. Only the newest 100,000 are looked at.
    async fn dead_groups(&self, filter: &JobFilter, limit: usize) -> Result<DeadGroups>;

    /// Removes live jobs that match (waiting, blocked, timer, suspended, running, external). A running handler is told by its node, and
    /// whatever it does its outcome will be refused; so will be that of an external worker.
    async fn cancel(&self, filter: &JobFilter, dry_run: bool) -> Result<Steered> {
        self.steer(filter, &Action::Cancel, Order { dry_run, by: None }).await
    }

    /// Removes jobs that match for good, dead letters too. Running and external ones are left alone.
    async fn delete(&self, filter: &JobFilter, dry_run: bool) -> Result<Steered> {
        self.steer(filter, &Action::Delete, Order { dry_run, by: None }).await
    }
}
