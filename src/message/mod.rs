//! Message services, which collect a context's messages, flush them with its commit, and are notified of that commit.
//!
//! ```text
//!  Context::send ─▶ MessageService::send        checks and collects; nothing leaves
//!  Context::commit ─▶ MessageService::flush     one statement in the context's transaction
//!                  ─▶ COMMIT, proven
//!                  ─▶ MessageService::committed local handoff, delivery, wake-up
//!  dropped, rolled back, failed                 the messages are discarded
//! ```
//!
//! Services wrap one another. The innermost writes the rows and wakes executors. With a broker, a second one hides rows for their
//! deliveries, and publishes these once the commit is proven: the row alone decides that a job exists, and the broker only makes it start
//! sooner. The next one hands jobs to an executor in this process that has free slots. Around these are the custom services
//! ([`MessageServices::wrap`]), and the send hooks. [Enlisted](MessageServices::enlist) transactions use the same chain.

mod by_sql;
mod chain;
mod commit_batcher;
#[cfg(feature = "rabbitmq")]
mod deliveries;
#[cfg(feature = "rabbitmq")]
mod delivery_publisher;
mod enlist;
mod flush;
mod hooks;
mod job_waiters;
pub(crate) mod local;
mod local_service;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
mod receipt;
mod results;
mod schedules;
mod sent;
mod service;
mod services;
mod shared;
mod table;
mod wakeup;

pub use self::by_sql::SqlStatement;
pub use self::enlist::{Enlisted, Flushed};
pub use self::flush::{FlushInto, WhenFull, Written};
pub(crate) use self::flush::{flush_within, notify_committed, wait_for_capacity};
pub use self::receipt::{CommitReceipt, RouteCounts};
pub use self::results::Awaited;
pub use self::schedules::ScheduleService;
pub use self::sent::{Sent, SentJobs, SentMetrics};
pub use self::service::MessageService;
pub use self::services::MessageServices;
pub(crate) use self::shared::Shared;
pub(crate) use self::table::HEAD_START;
pub(crate) use self::wakeup::{WakeUp, hints};
