//! What the engine asks of a database, by who asks: eight roles.
//!
//! A part of the engine takes the role it needs, so its signature says what it may do. [`JobStore`] is all of them together; only what puts an
//! executor or message services together names it. The statements behind a role are in the modules of the same topic in `postgres/` and `sqlite/`.
//!
//! Each method is one transaction and has a deadline. After an error that [`is_retryable`](crate::Error::is_retryable), the same call may be made
//! again. All methods are safe to repeat.

mod claims;
mod enqueue;
mod external;
mod info;
mod job_store;
mod maintenance;
mod nodes;
mod operator;
mod outcomes;
pub mod schedules;

pub use self::claims::Claims;
pub use self::enqueue::Enqueue;
pub use self::external::External;
pub use self::info::StoreInfo;
pub use self::job_store::JobStore;
pub use self::maintenance::Maintenance;
pub use self::nodes::Nodes;
pub use self::operator::{Operator, check_schema};
pub use self::outcomes::Outcomes;
pub use self::schedules::Schedules;
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
pub use super::job_operations::AuditNote;
pub use super::maintenance::{MaintenanceDue, MaintenanceRequest, Promoted};
pub use super::migration::Migration;
pub use super::nodes::{NodeHeartbeat, NodeInfo, ServerIdentity};
pub use super::operator_options::OperatorOptions;
pub use super::outage::Outage;
pub use super::progress::ProgressUpdate;
pub use super::queue_capacity::FullQueue;
pub use super::reconcile::{PermitHolder, Reconciled};
pub use super::rules::RuleEdit;
pub use super::settle::{HeldJob, Settlement, Verdict, clip};
#[doc(hidden)]
pub use super::testing;
pub use super::unit_of_work::{Inserted, JobWriter, NewResult, OwnedInsert, Preclaim, UnitOfWork};
pub use super::why::{JobPosition, KeyQuestion, KeyUse, ServingNode, WaitingClass};
