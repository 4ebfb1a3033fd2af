//! The server's name in errors and logs, and its outage state.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use tokio::time::timeout;

use super::connect::Target;
use super::driver_error::{is_refusal, why};
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
        let probe: Probe = Box::new(move || {
            let target = asked.clone();
            Box::pin(async move {
                let conn = match target.connect(None, None).await {
                    Ok(conn) => conn,
                    // It lives, and those that have connections work.
                    Err(failures) if failures.are_busy() => return Ok(()),
                    Err(failures) => {
                        return Err(Unusable { why: failures.to_string(), refuses: failures.are_refusals() });
                    }
                };
                // A pooler accepts any client; only a statement reaches the server.
                match timeout(patience, conn.simple_query("select 1")).await {
                    Ok(Ok(_)) => Ok(()),
                    Ok(Err(error)) => Err(Unusable { why: why(&error), refuses: is_refusal(&error) }),
                    Err(_) => Err(Unusable { why: format!("no answer within {patience:?}"), refuses: false }),
                }
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
