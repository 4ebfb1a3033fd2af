//! Finds out what became of a transaction whose COMMIT was not answered.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::client::query;
use super::conn::{Conn, Endpoint};
use super::error::ErrorContext;
use super::pool::{ENGINE_CONNECTIONS, Object};
use super::rows;
use super::shared::Shared;
use crate::error::{Error, ErrorKind, Result};

/// Facts that identify a transaction to the server. Jobwright's own writing statements collect them early, because an answer requested
/// together with the commit would be lost with it.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// The server on which the transaction began, if that is known.
    pub(super) endpoint: Option<Endpoint>,
    /// The transaction's id.
    pub(super) xid: Option<String>,
    /// A job that exists if and only if the transaction committed, until the job has run.
    pub(super) job: Option<Uuid>,
}

/// Finds out whether a transaction that began at `begun` committed.
///
/// `pg_xact_status` knows, unless the server crashed in between: an id that had not reached the disk is then assigned again, and
/// "committed" may refer to another transaction. A crash ends all connections, so an engine connection older than the transaction proves
/// that there was no crash. Without such a witness, only a job of the transaction proves the commit.
pub(super) async fn resolve(
    shared: &Arc<Shared>,
    evidence: Evidence,
    begun: std::time::Instant,
    lost: Error,
) -> Result<()> {
    let unknown = |why: &str, lost: Error| {
        let endpoint = &shared.label;
        Error::new(
            ErrorKind::CommitUnknown,
            format!("the answer to a commit on {endpoint} was lost, and {why}: the transaction may or may not have committed"),
        )
        .with_source(lost)
    };
    let Some(xid) = evidence.xid.clone() else {
        return Err(unknown("no statement of ours had brought the transaction's id to ask for", lost));
    };
    let deadline = Instant::now() + shared.call_timeout;
    let mut delays = crate::backoff::Reconnect::new(Duration::from_secs(1));
    let mut doubts = 0;
    while Instant::now() < deadline {
        match ask(shared, &xid, &evidence, begun).await {
            Some(CommitStatus::Committed) => return Ok(()),
            Some(CommitStatus::Aborted) => {
                return Err(Error::new(
                    ErrorKind::Aborted,
                    format!("the connection to {} was lost during a commit; the server rolled it back", shared.label),
                )
                .with_source(lost));
            }
            // Each attempt may get another connection, and one of them may be older.
            Some(CommitStatus::Doubtful) if doubts < ENGINE_CONNECTIONS => doubts += 1,
            Some(CommitStatus::Doubtful) if evidence.endpoint.is_none() => {
                return Err(unknown("it is not known on which server of the application's pool it was", lost));
            }
            Some(CommitStatus::Doubtful) => return Err(unknown("the server seems to have crashed meanwhile", lost)),
            // The server was not reached, or the transaction is still in progress: the old backend has not noticed the disconnect yet.
            None => tokio::time::sleep(delays.next_delay()).await,
        }
    }
    Err(unknown("the server could not be asked in time", lost))
}

enum CommitStatus {
    Committed,
    Aborted,
    /// Reported as committed, though perhaps another transaction is meant.
    Doubtful,
}

async fn ask(shared: &Arc<Shared>, xid: &str, evidence: &Evidence, begun: std::time::Instant) -> Option<CommitStatus> {
    let context = ErrorContext { what: "ask for a commit", label: &shared.label };
    let client = shared.client(&shared.engine, context).await.ok()?;
    // A pooler keeps its clients' connections through a crash of the server behind it. With several servers, a connection to another one
    // proves nothing.
    let same = evidence.endpoint.is_some() && evidence.endpoint == client.info.endpoint;
    let witness = !shared.pgbouncer && same && Object::metrics(&client).created < begun;
    let look = async {
        let client = &client;
        let status =
            client.query_typed("select pg_catalog.pg_xact_status($1::text::xid8)", &[(&xid, Type::TEXT)]).await.ok()?;
        match (rows::get::<Option<&str>>(status.first()?, 0).ok()??, witness, evidence.job) {
            ("aborted", ..) => Some(CommitStatus::Aborted),
            ("committed", true, _) => replicated(client).await,
            ("committed", false, Some(job)) => {
                let found = query(client, shared, &shared.sql.find, &[&job]).await.ok()?;
                if found.is_empty() { Some(CommitStatus::Doubtful) } else { replicated(client).await }
            }
            ("committed", false, None) => Some(CommitStatus::Doubtful),
            _ => None,
        }
    };
    let Ok(commit_status) = timeout(shared.call_timeout, look).await else {
        // A statement, perhaps a commit, is still running on this connection. No one must wait behind it, and it is not cancelled.
        drop(Object::take(client));
        return None;
    };
    commit_status
}

/// Checks that a commit also reached the synchronous standby, if there is one. The server reports "committed" even if the wait for the
/// standby was cancelled. A later commit whose wait was not cancelled proves that the standby has both. Returns `None` if the standby does
/// not have it yet.
async fn replicated(client: &Conn) -> Option<CommitStatus> {
    let rows =
        client.query_typed("select pg_catalog.current_setting('synchronous_standby_names') <> ''", &[]).await.ok()?;
    if rows::get::<bool>(rows.first()?, 0).ok()? {
        // The smallest write whose commit waits for the standby.
        client.query_typed("select pg_catalog.pg_logical_emit_message(true, 'jobwright', '')", &[]).await.ok()?;
        if client.info.stands_alone() {
            return None;
        }
    }
    Some(CommitStatus::Committed)
}
