//! Message services: what collects a context's messages, flushes them with its commit, and hears of that.
//!
//! ```text
//!  Context::send ─▶ MessageService::send        checks and collects; nothing leaves
//!  Context::commit ─▶ MessageService::flush     one statement in the context's transaction
//!                  ─▶ COMMIT, proven
//!                  ─▶ MessageService::committed hand-over, delivery, wake-up
//!  dropped, rolled back, failed                 the messages are discarded
//! ```
//!
//! Services wrap one another. The innermost writes the rows and wakes executors up. With a broker, a second one keeps rows back for their
//! deliveries, and publishes these once the commit is proven: a row decides what exists, a broker only who works how soon. The next one
//! hands jobs to an executor in this process that has room for them. Around these stand the services of the program
//! ([`MessageServices::wrap`]), and its send hooks. Transactions that are [enlisted](MessageServices::enlist) go the same way.

mod bells;
mod enlist;
mod guard;
mod handoff;
mod hooks;
pub(crate) mod local;
pub(crate) mod pipe;
mod rabbitmq;
mod results;
mod room;
mod schedules;
mod service;
mod services;
mod table;
mod together;
mod wakeup;

pub use self::enlist::{Enlisted, Flushed};
pub(crate) use self::guard::{flush_within, tell};
pub use self::handoff::{Handoff, WentTo};
pub use self::results::Awaited;
pub use self::room::WhenFull;
pub(crate) use self::room::make_room;
pub use self::schedules::ScheduleService;
pub use self::service::{FlushInto, MessageService, Written};
pub use self::services::MessageServices;
pub(crate) use self::services::Shared;
pub(crate) use self::wakeup::{WakeUp, hints};
pub use crate::error::BoxError;
