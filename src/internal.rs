//! For the program, the tests and the rigs of this repository, which are other crates. None of it is part of the API: it may change in each
//! release (docs/stability.md).

#[cfg(feature = "rabbitmq")]
pub use crate::broker::{
    BrokerQueue, Names, Ownership, RejectedMessage, RejectedMessages, RejectedQueue, TopologyItem, TopologyKind,
    TopologyState, testing as broker_testing, wire_testing,
};
pub use crate::config::{Access, Backend, parse_span};
pub use crate::executor::DEFAULT_TIMEOUT;
pub use crate::job::{ClaimNumber, Fence, HandOutNumber, Limits, ReportKey, RowLocation, Submission, parse_duration};
pub use crate::store::schedules::BACKFILL_MAX;
#[cfg(feature = "sqlite")]
pub use crate::store::sqlite::MIGRATIONS;
pub use crate::store::{
    Action, AdmissionLag, Installation, KindStatus, OperationWatch, OverdueWork, Place, Primary, Sampled, SkewedRows,
    SqlWorker, UnreadableJobs, UnreadableRow, VacuumStatus, WaitingKinds, XminHolder, engine,
};

/// Files of settings and keys.
pub mod small_file {
    pub use crate::small_file::{LARGEST, read, require};
}
