//! What became of a transaction whose COMMIT was not answered.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::client::query;
use super::connect::{Conn, Place};
use super::error::Doing;
use super::pool::{ENGINE_CONNECTIONS, Object};
use super::{Shared, rows};
use crate::error::{Error, ErrorKind, Result};

/// What the server can be asked about a transaction. Statements of ours that write bring it along: what is asked for together
/// with the commit gets lost together with its answer.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// The server it began on.
    pub(super) place: Option<Place>,
    /// The transaction's id.
    pub(super) xid: Option<String>,
    /// A job that is there if, and only if, the transaction committed, until it has run.
    pub(super) job: Option<Uuid>,
}

/// Finds out whether a transaction committed that began at `begun`.
///
/// `pg_xact_status` knows, unless the server crashed meanwhile: then an id that had not reached the disk is given out again, and
/// "committed" may be said of another transaction. Since a crash ends all connections, one of ours that is older than the
/// transaction proves that there was none; without such a witness, only a job of the transaction does.
pub(super) async fn resolve(
    shared: &Arc<Shared>,
    evidence: Evidence,
    begun: std::time::Instant,
    lost: Error,
) -> Result<()> {
    let unknown = |why: &str, lost: Error| {
        let place = &shared.place;
        Error::new(
            ErrorKind::CommitUnknown,
            format!("the answer to a commit on {place} got lost, and {why}: it may have committed or not"),
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
            Some(Fate::Committed) => return Ok(()),
            Some(Fate::Aborted) => {
                return Err(Error::new(
                    ErrorKind::Aborted,
                    format!("the connection to {} was lost during a commit; the server rolled it back", shared.place),
                )
                .with_source(lost));
            }
            // Each look may get another connection, and one of them may be an older one.
            Some(Fate::Doubtful) if doubts < ENGINE_CONNECTIONS => doubts += 1,
            Some(Fate::Doubtful) => return Err(unknown("the server seems to have crashed meanwhile", lost)),
            // Not reached, or in progress: the old backend has not noticed yet.
            None => tokio::time::sleep(delays.next_delay()).await,
        }
    }
    Err(unknown("the server could not be asked in time", lost))
}

enum Fate {
    Committed,
    Aborted,
    /// Said to have committed, but perhaps it was another one.
    Doubtful,
}

async fn ask(shared: &Arc<Shared>, xid: &str, evidence: &Evidence, begun: std::time::Instant) -> Option<Fate> {
    let doing = Doing { what: "ask for a commit", place: &shared.place };
    let client = shared.client(&shared.engine, doing).await.ok()?;
    // A pooler keeps our connections through a crash of the server behind it. Of several servers another one is no witness.
    let same = evidence.place.as_ref() == Some(&client.line.place);
    let witness = !shared.pgbouncer && same && Object::metrics(&client).created < begun;
    let look = async {
        let client = &client;
        let status = client.query_typed("select pg_xact_status($1::text::xid8)", &[(&xid, Type::TEXT)]).await.ok()?;
        match (rows::get::<Option<&str>>(status.first()?, 0).ok()??, witness, evidence.job) {
            ("aborted", ..) => Some(Fate::Aborted),
            ("committed", true, _) => replicated(client).await,
            ("committed", false, Some(job)) => {
                let found = query(client, shared.pgbouncer, &shared.sql.find, &[&job]).await.ok()?;
                if found.is_empty() { Some(Fate::Doubtful) } else { replicated(client).await }
            }
            ("committed", false, None) => Some(Fate::Doubtful),
            _ => None,
        }
    };
    let Ok(fate) = timeout(shared.call_timeout, look).await else {
        // What it was asked is still under way, perhaps a commit: nobody is to wait behind it, and it is not cancelled.
        drop(Object::take(client));
        return None;
    };
    fate
}

/// Where commits wait for a standby, "committed" is said of one whose wait was cancelled too. A commit of ours that comes after it and has
/// waited proves that the standby has both. `None`: it has not, for now.
async fn replicated(client: &Conn) -> Option<Fate> {
    let rows = client.query_typed("select current_setting('synchronous_standby_names') <> ''", &[]).await.ok()?;
    if rows::get::<bool>(rows.first()?, 0).ok()? {
        // The least that is written and waited for.
        client.query_typed("select pg_catalog.pg_logical_emit_message(true, 'jobwright', '')", &[]).await.ok()?;
        if client.line.stands_alone() {
            return None;
        }
    }
    Some(Fate::Committed)
}
