//! The server, as errors and logs name it, and how it stands.

use std::error::Error as _;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use tokio::time::timeout;
use tokio_postgres::Error as PgError;

use super::connect::Target;
use crate::config::DatabaseConfig;
use crate::store::outage::{Outage, Probe};

/// What and where, without its password.
#[derive(Clone, Debug)]
pub(super) struct Server {
    text: String,
    pub(super) outage: Arc<Outage>,
}

impl Server {
    /// Of a store, whose outages are told from [`Outage::watch`] on.
    pub(super) fn new(config: &DatabaseConfig, target: &Target) -> Self {
        let text = config.url.redacted();
        let (asked, patience) = (target.clone(), config.call_timeout);
        let probe: Probe = Box::new(move || {
            let target = asked.clone();
            Box::pin(async move {
                let conn = target.connect(None, None).await.map_err(|failures| failures.to_string())?;
                // A pooler lets in whoever comes; only a statement gets to the server.
                let answer = timeout(patience, conn.simple_query("select 1")).await;
                answer.map_err(|_| format!("no answer within {patience:?}"))?.map(drop).map_err(|error| why(&error))
            })
        });
        let outage = Outage::new(text.clone(), Some(probe));
        target.tell(&outage);
        Self { text, outage }
    }

    /// For a connection or two: nobody tells how it stands.
    pub(super) fn unwatched(config: &DatabaseConfig) -> Self {
        let text = config.url.redacted();
        Self { outage: Outage::new(text.clone(), None), text }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Deref for Server {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

/// In the server's words if it said any: the driver's own are "db error".
pub(super) fn why(error: &PgError) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(said), _) => format!("{} (SQLSTATE {})", said.message(), said.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}
