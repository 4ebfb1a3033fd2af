//! What the engine asks of a database, as roles of at most eight methods.
//!
//! A part of the engine takes the role it needs, so its signature says what it may do. [`JobStore`] is all of them together; only what puts an
//! executor or message services together names it. The statements behind a role are in the modules of the same topic in `postgres/` and `sqlite/`.
//!
//! Each method is one transaction and has a deadline. After an error that [`is_retryable`](crate::Error::is_retryable), the same call may be made
//! again. All methods are safe to repeat.

mod acquire;
mod diagnose;
mod enqueue;
mod external;
mod hints;
mod info;
mod inspect;
mod job_store;
mod leases;
mod maintenance;
mod operate;
mod outcomes;
mod progress;
mod prune;
mod recovery;
pub mod schedules;
mod schema;

pub use self::acquire::Acquire;
pub use self::diagnose::Diagnose;
pub use self::enqueue::Enqueue;
pub use self::external::External;
pub use self::hints::Hints;
pub use self::info::StoreInfo;
pub use self::inspect::Inspect;
pub use self::job_store::JobStore;
pub use self::leases::Leases;
pub use self::maintenance::Maintenance;
pub use self::operate::Operate;
pub use self::outcomes::Outcomes;
pub use self::progress::Progress;
pub use self::prune::Prune;
pub use self::recovery::Recovery;
pub use self::schedules::Schedules;
pub use self::schema::{Schema, check_schema};
pub use super::admission::{AdmitRequest, Admitted};
pub use super::broker::{Completed, Extension, ExternalDone, Received};
pub use super::claiming::{
    Acquitted, Allowed, ClaimRequest, Claimed, Counted, GroupClaim, GroupsClaimed, Removed, ScanCursor, ScanRange,
    SharedCursor, Suspect,
};
pub use super::clock::MAX_HIDDEN;
pub use super::dead_letter_groups::normalise;
pub use super::expiring::Expired;
pub use super::hint::{Hint, HintStream};
pub use super::installation::Adoption;
pub use super::job_operations::{AuditNote, OperatorOptions};
pub use super::maintenance::{MaintenanceDue, Promoted};
pub use super::migration::Migration;
pub use super::nodes::{NodeHeartbeat, NodeInfo, ServerIdentity};
pub use super::outage::Outage;
pub use super::progress::ProgressUpdate;
pub use super::queue_capacity::FullQueue;
pub use super::reconcile::{PermitHolder, Reconciled};
pub use super::rules::RuleEdit;
pub use super::settle::{HeldJob, Settlement, Verdict, clip};
#[doc(hidden)]
pub use super::testing;
pub use super::unit_of_work::{Inserted, JobWriter, NewResult, OwnedInsert, Preclaim, UnitOfWork};
