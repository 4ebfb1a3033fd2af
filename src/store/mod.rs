//! The seam between the engine and a database.
//!
//! [`JobStore`] is what an executor, a lock monitor and an operator need: every method is one transaction, works on a batch
//! where batches pay, and has a deadline. [`Store`] adds what is typed by the driver: the transaction a context hands to
//! its user. `tests/conformance` runs against every implementation and against an oracle in memory; it is the
//! specification where this text leaves a doubt.
//!
//! What all implementations keep (the laws of docs/architecture.md):
//!
//! * a claim gives each row it takes its own number as `version`, raises its `attempt`, and takes nothing for a node that is not alive;
//! * an outcome names a [`Fence`] and the node, and changes nothing unless both are current;
//! * ownership, due dates, leases and order are decided by the database's clock and sequence alone;
//! * a job is in exactly one of the tables `job`, `blocked_job`, `external_job`, `timer_job`, `suspended_job` and `dead_letter_job`, or gone.

mod admin;
pub(crate) mod admission;
mod any;
pub(crate) mod backlog;
pub(crate) mod broker;
mod claiming;
pub(crate) mod clock;
mod expiring;
mod filter;
mod groups;
mod hint;
mod history;
pub mod migration;
mod nodes;
mod outage;
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
mod unit_of_work;
pub(crate) mod unreadable;
mod upkeep;
pub(crate) mod weight;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use self::admin::{JobDetail, JobState, JobSummary, NodeStatus, Page, QueueStatus, StatusReport, Steered};
pub use self::admission::{Admission, AdmitRequest, Admitted, Overdue};
pub use self::any::{AnyStore, AnyTransaction, AnyTransactionRef};
pub use self::backlog::{Backlog, FullQueue};
pub use self::broker::{Completed, Extension, ExternalDone, Received};
pub use self::claiming::{
    Allowed, ClaimRequest, Claimed, Counted, GroupTurn, HandedOn, Removed, ScanFront, ScanMark, ScanPart,
};
pub use self::clock::{Ahead, Clock, LONGEST_HOLD};
pub use self::expiring::{Expired, Expiring};
pub use self::filter::{JobFilter, RetryOptions, TimeRange};
pub(crate) use self::groups::ENCODED;
pub use self::groups::{DeadGroup, DeadGroups, normalise};
pub use self::hint::{Hint, HintStream};
pub use self::history::{Ending, History, HistoryEntry, HistoryFilter, JobResult};
pub use self::migration::{Migration, MigrationStatus};
pub use self::nodes::{NodeInfo, Pulse, Released, ServerIdentity};
pub(crate) use self::outage::InHand;
pub use self::outage::Outage;
pub use self::postgres::{Postgres, Primary};
pub(crate) use self::progress::{CHECKPOINT_MAX, NOTE_MAX};
pub use self::progress::{JobProgress, Progress, ProgressUpdate};
pub use self::rules::{EACH, Rate, Rule, RuleEdit, Rules, Scope, ShareBy, Shares};
pub use self::schedules::Schedules;
pub use self::settle::{Settlement, Verdict, clip};
pub use self::steering::{Action, AuditEntry, AuditFilter, Change, Due, Note, Order, Steering};
pub use self::unit_of_work::{Inserted, JobWriter, NewResult, OwnedInsert, Preclaim, TransactionRef, UnitOfWork};
pub use self::unreadable::RowFault;
pub use self::upkeep::{Upkeep, UpkeepDue};
use crate::error::Result;
use crate::job::{ClaimNumber, Fence, HandOutNumber, Job, JobId, JobMessage, NodeId, ReportKey, Submission};

/// A database that can keep jobs, with the transaction type of its driver.
pub trait Store: Clone + Send + Sync + 'static {
    /// An open transaction that belongs to a context.
    type Transaction: UnitOfWork;

    /// Opens a transaction.
    fn begin(&self) -> impl Future<Output = Result<Self::Transaction>> + Send;

    /// The engine's side of the same database.
    fn jobs(&self) -> Arc<dyn JobStore>;
}

/// What kind an error is, if it or one of its causes is of a driver or of ours.
pub(crate) fn kind_of(error: &(dyn std::error::Error + 'static)) -> Option<crate::ErrorKind> {
    std::iter::successors(Some(error), |error| error.source()).find_map(|error| {
        if let Some(error) = error.downcast_ref::<crate::Error>() {
            return Some(error.kind());
        }
        #[cfg(feature = "sqlite")]
        if let Some(kind) = sqlite::driver_kind(error) {
            return Some(kind);
        }
        postgres::driver_kind(error)
    })
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
    Admission
    + Backlog
    + Clock
    + Expiring
    + History
    + Progress
    + Rules
    + Schedules
    + Steering
    + Upkeep
    + fmt::Debug
    + 'static
{
    /// What and where, for logs: no password.
    fn describe(&self) -> String;

    /// Whether it can be reached, as far as its connections have found out. `None`: it is no server.
    fn outage(&self) -> Option<&Arc<Outage>> {
        None
    }

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

    /// Takes up to `limit` waiting jobs for a node, best first, giving them the number of this claim and raising their
    /// `attempt`.
    ///
    /// # Errors
    /// [`LeaseLost`](crate::ErrorKind::LeaseLost) if there is something to take and the node is not alive.
    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claimed>;

    /// Removes finished jobs. Returns those that were accepted; the others were no longer owned by this claim.
    async fn complete(&self, node: NodeId, fences: &[Fence]) -> Result<Vec<JobId>>;

    /// Removes finished jobs of exclusive groups, and goes on with these groups in the same statement: claims the next jobs of each for this
    /// node, which holds the group by a lease until it takes none any more. They are the best that wait for the group, up to the first that is of
    /// another queue or of none of `kinds`; none if anything is limited or paused. What is claimed is marked as by [`claim`](Self::claim), under
    /// this number, and so is a new lease. At most 2,000 jobs may be wanted together.
    ///
    /// Those that are not accepted are to be completed. A store that has no such statement accepts none.
    async fn hand_on(
        &self,
        _node: NodeId,
        _claim: ClaimNumber,
        _ended: &[Fence],
        _turns: &[GroupTurn],
        _kinds: &[String],
    ) -> Result<HandedOn> {
        Ok(HandedOn::default())
    }

    /// Records outcomes other than success. Returns those that were accepted.
    async fn settle(&self, node: NodeId, settlements: &[Settlement]) -> Result<Vec<JobId>>;

    /// Handlers of claims that ended without an outcome that was accepted. If the job was cancelled while they ran, what it held (its group,
    /// its places under limits) is free now. Returns how many of them held something; naming others does nothing.
    async fn handlers_ended(&self, node: NodeId, fences: &[Fence]) -> Result<u64>;

    /// Makes a job wait whose outcome can't be recorded: its attempt is spent, and nobody claims it for this long.
    async fn put_off(&self, node: NodeId, fence: Fence, by: Duration) -> Result<()>;

    /// Moves due timers to waiting, in batches of at most `limit`.
    async fn promote_due(&self, limit: usize) -> Result<Promoted>;

    // -- nodes

    /// Registers a new incarnation and starts its lease.
    async fn register_node(&self, node: &NodeInfo) -> Result<NodeId>;

    /// Renews the lease. `false`: the node was declared dead, or is unknown; nothing revives it.
    async fn heartbeat(&self, node: NodeId) -> Result<bool>;

    /// Which server answers. `None`: there can be only one.
    async fn identity(&self) -> Result<Option<ServerIdentity>>;

    /// Gives up the connections that nobody uses, so that the next ones are made anew: those there are may lead to a server that is no longer
    /// the right one.
    fn reconnect(&self);

    /// Ends a node: of a process that stops in good order, or that lives though its lease was lost. Waits for claims of it that are still
    /// under way on the server, at most for `call_timeout`, then gives back whatever it owns, at no attempt. Returns how many jobs that were.
    async fn retire_node(&self, node: NodeId) -> Result<u64>;

    /// The heartbeats of all nodes, as they are now.
    async fn pulses(&self) -> Result<Vec<Pulse>>;

    /// Declares nodes dead whose heartbeat is still the one that was seen. Waits for nobody: what is locked is passed over. Returns those that
    /// it declared.
    async fn declare_dead(&self, silent: &[Pulse]) -> Result<Vec<NodeId>>;

    /// Releases at most `limit` jobs that dead nodes own, each with the error `owner lost` on its record and its attempt
    /// spent; forgets dead nodes that own nothing any more, and what their cancelled handlers held is free. Call until [`Released::total`] is less than `limit`.
    ///
    /// A job whose record shows `quarantine` such deaths since it was sent, or since it was last a dead letter, becomes one,
    /// whatever attempts remain: `quarantined: its process died N times while it ran`. `None` = never.
    async fn release_lost(&self, limit: usize, quarantine: Option<NonZeroU32>) -> Result<Released>;

    /// Gives back what a node owns without knowing it, at no attempt: the answer to a claim got lost. `known` must hold every claim that the
    /// node has in hand of those before the number `before`; what later claims took is left alone. `None` = no claim is under way. Claims are
    /// compared, and not jobs: an old handler of an id that was cancelled and sent again stands for nothing.
    async fn release_unknown(&self, node: NodeId, known: &[Fence], before: Option<ClaimNumber>) -> Result<u64>;

    /// The same where it is known which jobs a claim may have taken.
    async fn release_claimed(&self, node: NodeId, claim: ClaimNumber, ids: &[JobId]) -> Result<u64>;

    // -- delivering

    /// Takes the rows that deliveries name, held or not, if they still are what the delivery says: waiting, of that version,
    /// and of one of `kinds` (`None` = any). Marks them like [`claim`](Self::claim).
    async fn claim_delivered(
        &self,
        node: NodeId,
        claim: ClaimNumber,
        deliveries: &[Fence],
        kinds: Option<&[String]>,
    ) -> Result<Vec<Job>>;

    /// Ends the head start of deliveries that will not arrive. Returns the queues whose rows can be claimed now.
    async fn unhold(&self, ids: &[JobId]) -> Result<Vec<String>>;

    /// Shows how a node stands with the broker; `None` = it has none.
    async fn report_broker(&self, node: NodeId, mode: Option<&str>) -> Result<()>;

    /// Whether the tables that take in messages and reports take writes now: changes nothing, and waits as a write would. A store with one lock
    /// for everything has answered that with any write.
    async fn takes_writes(&self) -> Result<()> {
        Ok(())
    }

    // -- external workers

    /// Moves up to `limit` waiting jobs of a queue, best first, into the hands of external workers, each with a lease; gives
    /// them this number as `version`, and raises their `attempt`.
    async fn hand_out(&self, queue: &str, limit: usize, lease: Duration, token: HandOutNumber) -> Result<Vec<Job>>;

    /// What the tokens are made with that go out with jobs for external workers, the same for all who use this database.
    async fn report_key(&self) -> Result<ReportKey>;

    /// Makes jobs wait again that were handed out and did not arrive; their attempt is given back.
    async fn take_back(&self, fences: &[Fence]) -> Result<u64>;

    /// Removes jobs that external workers have done. One that asked for a reply leaves a row in
    /// [`REPLY_QUEUE`](crate::REPLY_QUEUE).
    async fn complete_external(&self, done: &[ExternalDone]) -> Result<Completed>;

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
    /// whatever it does its outcome will be refused; so will be that of an external worker. What such a job holds (its group, its places under
    /// limits) stays taken until [`handlers_ended`](Self::handlers_ended) is told, or nobody answers for the handler any more: its node is
    /// dead or retired, the external worker reported, or its lease is over.
    async fn cancel(&self, filter: &JobFilter, dry_run: bool) -> Result<Steered> {
        self.steer(filter, &Action::Cancel, Order { dry_run, by: None }).await
    }

    /// Removes jobs that match for good, dead letters too. Running and external ones are left alone.
    async fn delete(&self, filter: &JobFilter, dry_run: bool) -> Result<Steered> {
        self.steer(filter, &Action::Delete, Order { dry_run, by: None }).await
    }
}
