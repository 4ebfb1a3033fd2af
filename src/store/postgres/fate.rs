//! What became of a transaction whose COMMIT was not answered.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Object;
use tokio::time::{Instant, timeout};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::client::query;
use super::connect::ENGINE_CONNECTIONS;
use super::error::Doing;
use super::{Shared, rows};
use crate::error::{Error, ErrorKind, Result};

/// What the server can be asked about a transaction. Statements of ours that write bring it along: what is asked for together
/// with the commit gets lost together with its answer.
#[derive(Debug, Default)]
pub(super) struct Evidence {
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
    let Some(xid) = evidence.xid else {
        return Err(unknown("no statement of ours had brought the transaction's id to ask for", lost));
    };
    let deadline = Instant::now() + shared.call_timeout;
    let mut delays = crate::backoff::Reconnect::new(Duration::from_secs(1));
    let mut doubts = 0;
    while Instant::now() < deadline {
        match ask(shared, &xid, evidence.job, begun).await {
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

async fn ask(shared: &Arc<Shared>, xid: &str, job: Option<Uuid>, begun: std::time::Instant) -> Option<Fate> {
    let doing = Doing { what: "ask for a commit", place: &shared.place };
    let client = shared.client(&shared.engine, doing).await.ok()?;
    // A pooler keeps our connections through a crash of the server behind it.
    let witness = !shared.pgbouncer && Object::metrics(&client).created < begun;
    let look = async {
        let status = client.query_typed("select pg_xact_status($1::text::xid8)", &[(&xid, Type::TEXT)]).await.ok()?;
        match (rows::get::<Option<&str>>(status.first()?, 0).ok()??, witness, job) {
            ("aborted", ..) => Some(Fate::Aborted),
            ("committed", true, _) => Some(Fate::Committed),
            ("committed", false, Some(job)) => {
                let found = query(&client, shared.pgbouncer, &shared.sql.find, &[&job]).await.ok()?;
                Some(if found.is_empty() { Fate::Doubtful } else { Fate::Committed })
            }
            ("committed", false, None) => Some(Fate::Doubtful),
            _ => None,
        }
    };
    timeout(shared.call_timeout, look).await.ok()?
}
