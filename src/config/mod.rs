//! The library's settings: plain values that `serde` can read. Where they come from (file, environment, flags) is up to the caller.

mod broker;
mod database;
mod duration;
mod executor;
mod history;
mod secret;
mod setters;
mod settings;
mod submit;
pub(crate) mod url;

pub use self::broker::{BrokerConfig, QueueType};
pub use self::database::{Access, Backend, DatabaseConfig};
pub use self::executor::ExecutorConfig;
pub use self::history::{HistoryConfig, Keep, parse_span};
pub use self::secret::Secret;
pub use self::settings::Config;
pub(crate) use self::submit::Asked;
pub(crate) use self::submit::allows;
pub use self::submit::{SubmitRule, SubmitRules};
