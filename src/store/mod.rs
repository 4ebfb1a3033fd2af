//! The seam between the engine and a database.
//!
//! [`JobStore`] serves executors, lock monitors and operators. Each method is one transaction, has a deadline, and works on a
//! batch where batches pay. [`Store`] adds the type that depends on the driver: the transaction that a context hands to its user.
//! Where this text leaves a doubt, `tests/conformance` is the specification: it runs against every implementation and against
//! an oracle in memory.
//!
//! All implementations keep these laws (docs/architecture.md):
//!
//! * A claim writes its own number into each row it takes, as `version`, and raises the row's `attempt`. It takes nothing for a node that is not
//!   alive.
//! * An outcome names a [`Fence`] and the node, and changes nothing unless both are current.
//! * The database's clock and sequence alone decide about ownership, due dates, leases and order.
//! * A job is in exactly one of the tables `job`, `blocked_job` (SQLite only), `external_job`, `timer_job`, `suspended_job` and
//!   `dead_letter_job`, or gone.

mod admin;
pub(crate) mod admission;
mod any;
pub(crate) mod broker;
mod claiming;
pub(crate) mod clock;
mod dead_letter_groups;
mod expiring;
mod filter;
mod hint;
mod history;
pub(crate) mod job_operations;
mod maintenance;
pub mod migration;
mod nodes;
mod outage;
pub mod postgres;
mod progress;
pub(crate) mod queue_capacity;
mod rules;
pub mod schedules;
mod settle;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub(crate) mod statement_size;
#[doc(hidden)]
pub mod testing;
pub(crate) mod unique;
mod unit_of_work;
pub(crate) mod unreadable;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use self::admin::{AffectedJobs, JobDetail, JobState, JobSummary, NodeStatus, Page, QueueStatus, StatusReport};
pub use self::admission::{Admission, AdmissionLag, AdmitRequest, Admitted};
pub use self::any::{AnyStore, AnyTransaction, AnyTransactionRef};
pub use self::broker::{Completed, Extension, ExternalDone, Received};
pub use self::claiming::{
    Allowed, ClaimRequest, Claimed, Counted, GroupClaim, GroupsClaimed, Removed, ScanCursor, ScanRange, SharedCursor,
};
pub use self::clock::{ClockRepair, MAX_HIDDEN, SkewedRows};
pub(crate) use self::dead_letter_groups::ENCODED;
pub use self::dead_letter_groups::{DeadLetterGroup, DeadLetterGroups, normalise};
pub use self::expiring::{Expired, Expiring};
pub use self::filter::{JobFilter, RetryOptions, TimeRange};
pub use self::hint::{Hint, HintStream};
pub use self::history::{History, HistoryEntry, HistoryFilter, HistoryOutcome, JobResult};
pub use self::job_operations::{
    Action, AuditEntry, AuditFilter, AuditNote, Change, DueChange, JobOperations, OperatorOptions,
};
pub use self::maintenance::{Maintenance, MaintenanceDue};
pub use self::migration::{Migration, MigrationStatus};
pub use self::nodes::{NodeHeartbeat, NodeInfo, Released, ServerIdentity};
pub(crate) use self::outage::InFlightCount;
pub use self::outage::Outage;
pub use self::postgres::{Postgres, Primary};
pub(crate) use self::progress::{CHECKPOINT_MAX, NOTE_MAX};
pub use self::progress::{JobProgress, Progress, ProgressUpdate};
pub use self::queue_capacity::{FullQueue, QueueCapacity};
pub use self::rules::{EACH, Rate, Rule, RuleEdit, Rules, Scope, ShareBy, Shares};
pub use self::schedules::Schedules;
pub use self::settle::{Settlement, Verdict, clip};
pub use self::unit_of_work::{Inserted, JobWriter, NewResult, OwnedInsert, Preclaim, TransactionRef, UnitOfWork};
pub use self::unreadable::UnreadableRow;
use crate::error::Result;
use crate::job::{ClaimNumber, Fence, HandOutNumber, Job, JobId, JobMessage, NodeId, ReportKey, Submission};

/// A database that stores jobs, with the transaction type of its driver.
pub trait Store: Clone + Send + Sync + 'static {
    /// An open transaction that belongs to a context.
    type Transaction: UnitOfWork;

    /// Opens a transaction.
    fn begin(&self) -> impl Future<Output = Result<Self::Transaction>> + Send;

    /// Returns the engine's side of the same database.
    fn jobs(&self) -> Arc<dyn JobStore>;
}

/// Returns the kind of an error, if it or one of its causes is a driver's error or ours.
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

/// The result of a promotion of due timers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Promoted {
    /// How many jobs are waiting now.
    pub jobs: u64,
    /// The queues they wait in.
    pub queues: Vec<String>,
    /// Whether some of them are blocked and wait for admission.
    pub blocked: bool,
    /// Time until the next timer is due; `None` = there is none.
    pub next: Option<Duration>,
}

/// The engine's view of a database: everything but the user's own transactions.
///
/// Each method is one transaction and has a deadline. After an error that [`is_retryable`](crate::Error::is_retryable), the same
/// call may be made again. All methods are safe to repeat.
#[async_trait]
pub trait JobStore:
    Admission
    + QueueCapacity
    + ClockRepair
    + Expiring
    + History
    + Progress
    + Rules
    + Schedules
    + JobOperations
    + Maintenance
    + fmt::Debug
    + 'static
{
    /// Says which database this is and where, for logs, without a password.
    fn describe(&self) -> String;

    /// Returns whether the database can be reached, as far as its connections have found out. `None`: it is not a server.
    fn outage(&self) -> Option<&Arc<Outage>> {
        None
    }

    /// Opens another handle on the same database, with connections of its own, for use on another runtime: a heartbeat must not
    /// wait for anything that blocks the application's runtime.
    async fn detached(&self) -> Result<Arc<dyn JobStore>>;

    // -- schema

    /// Applies the missing migrations. Safe when many processes start at once. Refuses a newer schema that this build does not run on.
    async fn migrate(&self) -> Result<Vec<MigrationStatus>>;

    /// Returns which migrations are applied and which are missing. Changes nothing.
    async fn migration_status(&self) -> Result<Vec<MigrationStatus>>;

    /// Fails, and says what to do, unless the schema has all that this build needs, and nothing that it does not run with.
    async fn check_schema(&self) -> Result<()> {
        migration::check(&self.migration_status().await?, &self.describe())
    }

    // -- sending

    /// Inserts messages in a transaction of their own, with one statement. Skips a message whose given id exists in any state, and
    /// a unique one whose key is held. A message that is due later goes to `timer_job`.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when the key of a unique message is held and its options ask to reject it then;
    /// nothing was written.
    async fn insert(&self, messages: &[JobMessage], owned: Option<&Preclaim>) -> Result<Inserted>;

    /// Sends hints to other processes, such as that a queue has work. A hint may get lost.
    async fn notify(&self, hints: &[Hint]) -> Result<()>;

    /// Opens a stream of hints; it ends when the connection breaks. `None`: this store can't receive hints, so poll.
    async fn listen(&self) -> Result<Option<Box<dyn HintStream>>>;

    // -- running

    /// Claims up to `limit` waiting jobs for a node, best first. Gives them the number of this claim as `version` and raises their
    /// `attempt`.
    ///
    /// # Errors
    /// [`LeaseLost`](crate::ErrorKind::LeaseLost) if there are jobs to take and the node is not alive.
    async fn claim(&self, request: &ClaimRequest<'_>) -> Result<Claimed>;

    /// Removes finished jobs. Returns those that were accepted; of the others, the claim is no longer current.
    async fn complete(&self, node: NodeId, fences: &[Fence]) -> Result<Vec<JobId>>;

    /// Removes finished jobs of exclusive groups, and claims the next jobs of these groups for this node in the same statement. The node holds
    /// each group by a lease until it takes no more jobs of it.
    ///
    /// The next jobs are the best that wait for the group, up to the first one in another queue or of a kind that is not in `kinds`. There are
    /// none if anything is limited or paused. Claimed jobs are marked as by [`claim`](Self::claim), with this number; so are new leases. At most
    /// 2,000 jobs may be wanted together.
    ///
    /// Jobs that are not accepted must be completed with [`complete`](Self::complete). A store without such a statement accepts none.
    async fn complete_and_claim_next(
        &self,
        _node: NodeId,
        _claim: ClaimNumber,
        _ended: &[Fence],
        _groups: &[GroupClaim],
        _kinds: &[String],
    ) -> Result<GroupsClaimed> {
        Ok(GroupsClaimed::default())
    }

    /// Records outcomes other than success. Returns the jobs whose outcomes were accepted.
    async fn settle(&self, node: NodeId, settlements: &[Settlement]) -> Result<Vec<JobId>>;

    /// Reports that the handlers of these claims have ended without an accepted outcome. If a job was cancelled while its handler ran, this
    /// releases what it held (its group, its permits). Returns how many of them held something. Naming other claims does nothing.
    async fn handlers_ended(&self, node: NodeId, fences: &[Fence]) -> Result<u64>;

    /// Makes a job wait because its outcome can't be recorded. Its attempt is spent, and no node claims it for this long.
    async fn put_off(&self, node: NodeId, fence: Fence, by: Duration) -> Result<()>;

    /// Makes at most `limit` due timers wait to be claimed.
    async fn promote_due(&self, limit: usize) -> Result<Promoted>;

    // -- nodes

    /// Registers a new node session and starts its lease.
    async fn register_node(&self, node: &NodeInfo) -> Result<NodeId>;

    /// Renews the node's lease. `false`: the node was declared dead or is unknown, and nothing revives it.
    async fn heartbeat(&self, node: NodeId) -> Result<bool>;

    /// Identifies the server that answers. `None`: there can be only one.
    async fn identity(&self) -> Result<Option<ServerIdentity>>;

    /// Closes idle connections, so that the next ones are new: the old ones may lead to a server that is no longer the right one.
    fn reconnect(&self);

    /// Ends a node whose process stops in good order, or lives on though its lease was lost. Waits, at most for `call_timeout`, for its claims
    /// that are still under way on the server. Then releases whatever it owns and gives the attempts back. Returns how many jobs it released.
    async fn retire_node(&self, node: NodeId) -> Result<u64>;

    /// Returns the current heartbeats of all nodes.
    async fn node_heartbeats(&self) -> Result<Vec<NodeHeartbeat>>;

    /// Declares nodes dead whose heartbeat is still the given one. Never waits for a lock: passes over nodes that are locked. Returns the nodes
    /// that it declared dead.
    async fn declare_dead(&self, silent: &[NodeHeartbeat]) -> Result<Vec<NodeId>>;

    /// Releases at most `limit` jobs that dead nodes own. Each gets the error `owner lost` on its record, and its attempt is spent.
    /// Forgets dead nodes that own nothing any more, and frees what their cancelled handlers held. Call until [`Released::total`] is
    /// less than `limit`.
    ///
    /// A job becomes a dead letter, whatever attempts remain, if its record shows `quarantine` such deaths since it was sent or since it
    /// was last a dead letter. The reason is `quarantined: its process died N times while it ran`. `None` = never.
    async fn release_lost(&self, limit: usize, quarantine: Option<NonZeroU32>) -> Result<Released>;

    /// Releases what a node owns without knowing it, because the answer to a claim got lost; gives the attempts back. `known` must name every
    /// claim with a number before `before` that the node has in flight. What later claims took is left alone; `None` = no claim is under way.
    /// Compares claims, not jobs: the old handler of an id that was cancelled and sent again does not count.
    async fn release_unknown(&self, node: NodeId, known: &[Fence], before: Option<ClaimNumber>) -> Result<u64>;

    /// Does the same for one claim, when it is known which jobs that may have taken.
    async fn release_claimed(&self, node: NodeId, claim: ClaimNumber, ids: &[JobId]) -> Result<u64>;

    // -- delivering

    /// Claims the rows that deliveries name, hidden or not, if they still match their delivery: waiting, of that version, and of one
    /// of `kinds` (`None` = any). Marks them as [`claim`](Self::claim) does.
    async fn claim_delivered(
        &self,
        node: NodeId,
        claim: ClaimNumber,
        deliveries: &[Fence],
        kinds: Option<&[String]>,
    ) -> Result<Vec<Job>>;

    /// Ends the head start of deliveries that will not arrive. Returns the queues whose rows can be claimed now.
    async fn unhide(&self, ids: &[JobId]) -> Result<Vec<String>>;

    /// Records the state of a node's broker connection, for the status; `None` = it has no broker.
    async fn report_broker(&self, node: NodeId, mode: Option<&str>) -> Result<()>;

    /// Checks that the tables for incoming messages and reports take writes now. Changes nothing, and waits as a write would. A store with one
    /// lock for everything need not check: any other write has shown it.
    async fn takes_writes(&self) -> Result<()> {
        Ok(())
    }

    // -- external workers

    /// Hands out up to `limit` waiting jobs of a queue to external workers, best first, each with a lease. Gives them this number as
    /// `version` and raises their `attempt`.
    async fn hand_out(&self, queue: &str, limit: usize, lease: Duration, token: HandOutNumber) -> Result<Vec<Job>>;

    /// Returns the key that makes the tokens of hand-outs. All processes that use this database have the same.
    async fn report_key(&self) -> Result<ReportKey>;

    /// Makes jobs wait again that were handed out but did not arrive, and gives their attempts back.
    async fn take_back(&self, fences: &[Fence]) -> Result<u64>;

    /// Removes jobs that external workers have done. A job that asked for a reply leaves a row in
    /// [`REPLY_QUEUE`](crate::REPLY_QUEUE).
    async fn complete_external(&self, done: &[ExternalDone]) -> Result<Completed>;

    /// Records other outcomes of external workers, as [`settle`](Self::settle) does.
    async fn settle_external(&self, settlements: &[Settlement]) -> Result<Vec<JobId>>;

    /// Renews leases of external workers. Returns the jobs whose leases were renewed.
    async fn extend_external(&self, extensions: &[Extension]) -> Result<Vec<JobId>>;

    /// Releases at most `limit` jobs whose external worker let its lease expire; their attempts are spent.
    async fn expire_external(&self, limit: usize) -> Result<Released>;

    // -- external producers

    /// Stores what external producers submitted, and remembers each id with the digest of its message, in one transaction. The
    /// answers are in the order of the submissions; an id that comes twice in a batch is judged in that order too.
    async fn receive(&self, submissions: &[Submission]) -> Result<Vec<Received>>;

    /// Forgets at most `limit` ids of submissions that are older than `age`. Returns how many.
    async fn prune_submissions(&self, age: Duration, limit: usize) -> Result<u64>;

    // -- operating

    /// Returns counts, nodes and ages.
    async fn status(&self) -> Result<StatusReport>;

    /// Lists jobs that match, oldest first: at most `page.limit`, starting after `page.after`.
    async fn list(&self, filter: &JobFilter, page: &Page) -> Result<Vec<JobSummary>>;

    /// Returns everything known about one job.
    async fn show(&self, id: JobId) -> Result<Option<JobDetail>>;

    /// Makes dead letters and timers that match wait to run at once. A dead letter starts again with no attempts spent, and keeps its
    /// errors; its time to live, if it has one, begins again. Sends a hint if the store can, as all operations do.
    async fn retry(&self, filter: &JobFilter, dry_run: bool) -> Result<AffectedJobs> {
        self.retry_with(filter, &RetryOptions { dry_run, ..RetryOptions::default() }).await
    }

    /// Does the same for some of the jobs, or spreads them over a time. Jobs that are spread become timers; a timer never becomes due
    /// later by it.
    async fn retry_with(&self, filter: &JobFilter, options: &RetryOptions) -> Result<AffectedJobs> {
        let RetryOptions { dry_run, limit, spread } = *options;
        self.operate(filter, &Action::Retry { limit, spread }, OperatorOptions { dry_run, by: None }).await
    }

    /// Groups dead letters that match by cause, and returns at most `limit` groups. Reads only the newest 100,000.
    async fn dead_letter_groups(&self, filter: &JobFilter, limit: usize) -> Result<DeadLetterGroups>;

    /// Removes live jobs that match (waiting, blocked, timer, suspended, running, external). A running handler is notified by its node.
    /// Whatever it does, its outcome will be refused; so will that of an external worker. What such a job holds (its group, its permits)
    /// stays taken until [`handlers_ended`](Self::handlers_ended) reports the end of its handler, or its node is dead or retired. For an
    /// external worker, it stays taken until the worker reports or its lease is over.
    async fn cancel(&self, filter: &JobFilter, dry_run: bool) -> Result<AffectedJobs> {
        self.operate(filter, &Action::Cancel, OperatorOptions { dry_run, by: None }).await
    }

    /// Removes jobs that match for good, dead letters too. Leaves running and external ones alone.
    async fn delete(&self, filter: &JobFilter, dry_run: bool) -> Result<AffectedJobs> {
        self.operate(filter, &Action::Delete, OperatorOptions { dry_run, by: None }).await
    }
}
