//! Finds the servers behind one URL that accept writes: there should be one.

use tokio::time::timeout;
use tokio_postgres::SimpleQueryMessage;

use super::conn::Endpoint;
use super::connect::Target;
use crate::config::DatabaseConfig;
use crate::error::Result;
use crate::store::sections::section;

/// How often each address is asked: a load balancer may lead to another server the next time.
const TIMES: usize = 3;

/// A server that accepts writes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Primary {
    /// The address under which it was reached.
    pub label: String,
    /// Identifies the server and its history: see [`ServerIdentity`](crate::store::ServerIdentity).
    pub history: String,
}

/// Finds all writable servers that the URL leads to. Hosts that do not answer, and standbys, are left out.
pub(super) async fn find(config: &DatabaseConfig) -> Result<Vec<Primary>> {
    let target = Target::new(config)?;
    let each = target.all_places().await.into_iter().map(|label| ask(&target, label, config));
    Ok(futures_util::future::join_all(each).await.into_iter().flatten().collect())
}

async fn ask(target: &Target, label: Endpoint, config: &DatabaseConfig) -> Vec<Primary> {
    let mut found: Vec<Primary> = Vec::new();
    for _ in 0..TIMES {
        let asked = timeout(target.bound() + config.call_timeout, history(target, label.clone())).await;
        let Ok(Some(history)) = asked else { break };
        if let Some(history) = history
            && found.iter().all(|known| known.history != history)
        {
            found.push(Primary { label: label.to_string(), history });
        }
    }
    found
}

const PRIMARY: &str = section(include_str!("primaries.sql"), "primary");

/// Returns `None` if there is no answer, and `Some(None)` if the server accepts no writes.
async fn history(target: &Target, label: Endpoint) -> Option<Option<String>> {
    let conn = timeout(target.bound(), target.attempt(label, None, None)).await.ok()?.ok()?;
    let answer = conn.simple_query(PRIMARY).await.ok()?;
    let row = answer.iter().find_map(|part| match part {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    Some(row?.get(0).map(str::to_owned))
}
