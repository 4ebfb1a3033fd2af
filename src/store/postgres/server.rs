//! The server's name in errors and logs, and its outage state.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use tokio::time::timeout;

use super::connect::Target;
use super::driver_error::why;
use crate::config::DatabaseConfig;
use crate::store::outage::{Outage, Probe};

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
        let probe: Probe = Box::new(move || {
            let target = asked.clone();
            Box::pin(async move {
                let conn = target.connect(None, None).await.map_err(|failures| failures.to_string())?;
                // A pooler accepts any client; only a statement reaches the server.
                let answer = timeout(patience, conn.simple_query("select 1")).await;
                answer.map_err(|_| format!("no answer within {patience:?}"))?.map(drop).map_err(|error| why(&error))
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
