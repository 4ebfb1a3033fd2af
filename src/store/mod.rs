//! The seam between the engine and a database.
//!
//! [`engine`] has what executors, senders and operators ask of a database, as roles. Each method is one transaction, has a deadline, and works
//! on a batch where batches pay. [`Store`] adds the type that depends on the driver: the transaction that a context hands to its user.
//! Where this text leaves a doubt, `tests/conformance` is the specification: it runs against every implementation and against
//! an oracle in memory.
//!
//! All implementations keep these laws (docs/architecture.md):
//!
//! * A claim writes its own number into each row it takes, as `version`, and raises the row's `attempt`. It takes nothing for a node that is not
//!   alive.
//! * An outcome names a [`Fence`](crate::job::Fence) and the node, and changes nothing unless both are current.
//! * The database's clock and sequence alone decide about ownership, due dates, leases and order.
//! * A job is in exactly one of the tables `job`, `external_job`, `timer_job`, `suspended_job` and `dead_letter_job`, or gone. On SQLite it has
//!   exactly one state in the table `job`, or is gone.

mod admin;
pub(crate) mod admission;
mod any;
pub(crate) mod broker;
mod claiming;
pub(crate) mod clock;
mod count;
mod database;
mod dead_letter_groups;
pub mod engine;
mod error_kind;
mod expiring;
mod filter;
pub(crate) mod given_ids;
mod hint;
mod history;
mod installation;
pub(crate) mod job_operations;
mod kinds;
mod maintenance;
mod migration;
pub(crate) mod nodes;
mod operator_options;
mod outage;
pub(crate) mod postgres;
mod progress;
pub(crate) mod queue_capacity;
pub(crate) mod reconcile;
mod rules;
pub(crate) mod schedules;
pub(crate) mod sections;
mod settle;
pub(crate) mod sql_workers;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;
pub(crate) mod statement_size;
mod status;
#[doc(hidden)]
pub mod testing;
pub(crate) mod unique;
mod unit_of_work;
pub(crate) mod unreadable;
mod vacuum;
pub(crate) mod why;

pub use self::admin::{AffectedJobs, JobDetail, JobState, JobSummary, Page};
pub use self::admission::AdmissionLag;
pub(crate) use self::admission::{AdmitRequest, Admitted, WorkedQueue};
pub use self::any::{AnyStore, AnyTransaction, AnyTransactionRef};
pub(crate) use self::broker::{Completed, Extension, ExternalDone, Received, waits_behind};
pub(crate) use self::claiming::{
    Acquitted, Allowed, ClaimRequest, Claimed, Counted, GroupClaim, GroupsClaimed, Removed, ScanCursor, ScanRange,
    SharedCursor, Suspect,
};
pub(crate) use self::clock::MAX_HIDDEN;
pub use self::clock::SkewedRows;
pub use self::count::{Count, Sampled};
pub use self::database::{Store, TransactionRef};
pub(crate) use self::dead_letter_groups::ENCODED;
pub use self::dead_letter_groups::{DeadLetterGroup, DeadLetterGroups};
pub(crate) use self::engine::{
    Claims, Enqueue, External, JobStore, Maintenance, Nodes, Operator, Outcomes, Schedules, StoreInfo, check_schema,
};
pub(crate) use self::error_kind::kind_of;
pub(crate) use self::expiring::Expired;
pub use self::filter::{JobFilter, RetryOptions, TimeRange};
pub(crate) use self::hint::{Hint, HintStream};
pub use self::history::{HistoryEntry, HistoryFilter, HistoryOutcome, JobResult};
pub(crate) use self::installation::Adoption;
pub use self::installation::{Installation, Place};
pub(crate) use self::job_operations::AuditNote;
pub use self::job_operations::{Action, AuditEntry, AuditFilter, Change, DueChange};
pub use self::kinds::{KindStatus, WaitingKinds};
pub use self::maintenance::OverdueWork;
pub(crate) use self::maintenance::{MaintenanceDue, MaintenanceRequest, Promoted};
pub(crate) use self::migration::Migration;
pub use self::migration::MigrationStatus;
pub use self::nodes::{FailingTask, Released, Serves};
pub(crate) use self::nodes::{NodeHeartbeat, NodeInfo, ServerIdentity};
pub use self::operator_options::OperationWatch;
pub(crate) use self::operator_options::OperatorOptions;
pub(crate) use self::outage::{InFlightCount, Outage};
pub use self::postgres::{Postgres, Primary};
pub use self::progress::JobProgress;
pub(crate) use self::progress::{CHECKPOINT_MAX, NOTE_MAX, ProgressUpdate};
pub(crate) use self::queue_capacity::FullQueue;
pub(crate) use self::rules::RuleEdit;
pub use self::rules::{EACH, Rate, Rule, Scope, ShareBy, Shares};
pub(crate) use self::settle::{HeldJob, Settlement, Verdict, clip};
pub use self::sql_workers::SqlWorker;
pub use self::status::{NodeStatus, QueueStatus, StatusReport};
pub(crate) use self::unit_of_work::{Inserted, JobWriter, NewResult, OwnedInsert, Preclaim, UnitOfWork};
pub use self::unreadable::{UnreadableJobs, UnreadableRow};
pub use self::vacuum::{VacuumStatus, XminHolder};
pub use self::why::{HeldUp, Holder, Reason, Why};
pub(crate) use self::why::{JobPosition, KeyQuestion, KeyUse, ServingNode, WaitingClass};
