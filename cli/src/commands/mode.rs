//! The state of the broker, in words.

use std::time::Duration;

use jobwright::{AnyStore, BrokerMode, MessageServices};
use serde::Serialize;

/// How long a read-only command waits for the broker to answer, beyond the time of connecting.
const PATIENCE: Duration = Duration::from_millis(500);

/// The state of the broker.
#[derive(Serialize)]
pub(crate) struct Mode {
    /// One word: `db-only`, `up`, `blocked`, `down`.
    #[serde(rename = "mode")]
    state: &'static str,
    /// The address of the broker.
    #[serde(skip_serializing_if = "Option::is_none")]
    broker: Option<String>,
    /// Why it is not up.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// How long it has been down, as far as this process knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    down_seconds: Option<f64>,
}

impl Mode {
    /// Returns the state as seen by this process.
    pub(crate) async fn of(messages: &MessageServices<AnyStore>) -> Self {
        let Some(broker) = messages.broker() else {
            return Self { state: "db-only", broker: None, why: None, down_seconds: None };
        };
        // `connect` has waited for the first status; a connection in progress gets a little longer.
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

    /// Returns the text for people.
    pub(crate) fn text(&self) -> String {
        let place = self.broker.as_deref().unwrap_or_default();
        let why = self.why.as_deref().unwrap_or_default();
        match (self.state, self.down_seconds) {
            ("db-only", _) => "DB-only (no broker configured)".to_owned(),
            ("up", _) => format!("broker up ({place})"),
            ("blocked", _) => format!("DB-only: broker {place} takes no messages ({why})"),
            (_, Some(seconds)) => {
                format!("DB-only: broker {place} has been down for {seconds:.1} s, seen from this process ({why})")
            }
            _ => format!("DB-only: broker {place} is not up"),
        }
    }
}
