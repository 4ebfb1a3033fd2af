//! The server's name in errors and logs, and its outage state.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use tokio::time::timeout;
use tokio_postgres::SimpleQueryMessage;

use super::connect::Target;
use super::driver_error::why;
use crate::config::DatabaseConfig;
use crate::store::outage::{Outage, Probe, Unusable};

/// The server's URL without its password, for display.
#[derive(Clone, Debug)]
pub(super) struct ServerLabel {
    text: String,
    pub(super) outage: Arc<Outage>,
}

impl ServerLabel {
    /// Creates the label of a store. Its outages are logged once [`Outage::watch`] was called.
    pub(super) fn new(config: &DatabaseConfig, target: &Target) -> Self {
        let text = config.url.redacted();
        let (asked, patience) = (target.clone(), config.call_timeout);
        let probe: Probe = Box::new(move |writes| {
            let target = asked.clone();
            Box::pin(async move {
                let conn = target
                    .connect(None, None)
                    .await
                    .map_err(|failures| Unusable { why: failures.to_string(), refuses: failures.refuse() })?;
                // A pooler accepts any client; only a statement reaches the server.
                let answer = timeout(patience, conn.simple_query("show transaction_read_only")).await;
                let down = |why: String| Unusable { why, refuses: false };
                let answer = answer.map_err(|_| down(format!("no answer within {patience:?}")))?;
                let answer = answer.map_err(|error| down(why(&error)))?;
                let is_on = |message: &SimpleQueryMessage| matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("on"));
                if writes && answer.iter().any(is_on) {
                    return Err(Unusable { why: "it takes no writes".to_owned(), refuses: true });
                }
                Ok(())
            })
        });
        let outage = Outage::new(text.clone(), Some(probe));
        target.tell(&outage);
        Self { text, outage }
    }

    /// Creates a label for short-lived connections, whose outages are not logged.
    pub(super) fn unwatched(config: &DatabaseConfig) -> Self {
        let text = config.url.redacted();
        Self { outage: Outage::new(text.clone(), None), text }
    }
}

impl fmt::Display for ServerLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Deref for ServerLabel {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}
