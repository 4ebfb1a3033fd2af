//! How the broker stands, in words.

use std::time::Duration;

use jobwright::{AnyStore, BrokerMode, MessageServices};
use serde::Serialize;

/// How long a command that only looks waits for the broker to answer, beyond what connecting took.
const PATIENCE: Duration = Duration::from_millis(500);

/// What is said about the broker.
#[derive(Serialize)]
pub(crate) struct Mode {
    /// One word: `db-only`, `up`, `blocked`, `down`.
    #[serde(rename = "mode")]
    state: &'static str,
    /// Where the broker is.
    #[serde(skip_serializing_if = "Option::is_none")]
    broker: Option<String>,
    /// Why it is not up.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// For how long it has been down, as far as this process knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    down_seconds: Option<f64>,
}

impl Mode {
    /// How it stands for this process.
    pub(crate) async fn of(messages: &MessageServices<AnyStore>) -> Self {
        let Some(broker) = messages.broker() else {
            return Self { state: "db-only", broker: None, why: None, down_seconds: None };
        };
        // `connect` has waited for the first news; a connection that is just being made gets a moment more.
        let mut changes = broker.changes();
        let _ = tokio::time::timeout(PATIENCE, changes.wait_for(BrokerMode::is_up)).await;
        let (state, why, down) = match broker.ask(PATIENCE).await {
            BrokerMode::Up(_) => ("up", None, None),
            BrokerMode::Blocked(why) => ("blocked", Some(why), None),
            BrokerMode::Down { since, why } => ("down", Some(why), Some(since.elapsed().as_secs_f64())),
            _ => ("unknown", None, None),
        };
        Self { state, broker: Some(broker.describe()), why, down_seconds: down }
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let place = self.broker.as_deref().unwrap_or_default();
        let why = self.why.as_deref().unwrap_or_default();
        match (self.state, self.down_seconds) {
            ("db-only", _) => "DB-only (no broker configured)".to_owned(),
            ("up", _) => format!("broker up ({place})"),
            ("blocked", _) => format!("DB-only: broker {place} takes no messages ({why})"),
            (_, Some(seconds)) => {
                format!("DB-only: broker {place} is down, for this process since {seconds:.1} s ({why})")
            }
            _ => format!("DB-only: broker {place} is not up"),
        }
    }
}
