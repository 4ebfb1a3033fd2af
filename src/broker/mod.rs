//! The broker (AMQP 0-9-1, RabbitMQ): two supervised connections, a publisher with confirms, subscriptions, names and wire format. It knows
//! jobs, but no store.

mod acks;
mod address;
mod claiming;
mod counters;
mod declare;
mod dedicated;
mod direct;
mod failure;
mod handle;
mod hub;
mod inspect;
mod isolated;
mod link;
mod member;
mod message;
mod mode;
mod mode_tracker;
mod names;
mod ownership;
mod prefetch_window;
mod publisher;
mod rejected;
mod session;
mod stats;
mod subscription;
#[doc(hidden)]
pub mod testing;
mod topology;
pub(crate) mod wire;

pub(crate) use self::acks::Acks;
pub(crate) use self::direct::Direct;
pub use self::handle::Broker;
pub use self::inspect::BrokerQueue;
pub(crate) use self::isolated::Alone;
pub(crate) use self::message::{Incoming, Outgoing, Published, QueueRole, Tag};
pub use self::mode::BrokerMode;
pub use self::names::Names;
pub use self::ownership::Ownership;
pub use self::rejected::{RejectedMessage, RejectedMessages, RejectedQueue};
pub use self::stats::{BrokerStats, ModeChanges};
pub(crate) use self::subscription::Subscription;
pub use self::topology::{TopologyItem, TopologyKind, TopologyState};
#[doc(hidden)]
pub use self::wire::testing as wire_testing;
pub(crate) use self::wire::{ExternalReport, Refusal, Reply};
