//! Hints between processes, over LISTEN and NOTIFY. They may get lost, so polling remains the source of truth.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_postgres::Notification;
use tokio_util::task::AbortOnDropHandle;

use super::conn::Conn;
use super::connect::Target;
use super::error::ErrorContext;
use super::server::ServerLabel;
use super::shared::Shared;
use super::statements::channel;
use crate::error::{Error, ErrorKind, Result};
use crate::store::{Hint, HintStream};

/// How many hints may wait to be read. Further ones are dropped, because a waiting hint already says the same.
const BACKLOG: usize = 1024;

/// Encodes a hint for a notification: a letter, then a queue's name.
fn encode(hint: &Hint) -> String {
    match hint {
        Hint::Queue(queue) => format!("q{queue}"),
        Hint::Rescan(queue) => format!("r{queue}"),
        Hint::Timer => "t".to_owned(),
        Hint::Schedule => "s".to_owned(),
        Hint::Admission => "g".to_owned(),
        Hint::Expiry => "x".to_owned(),
        Hint::Any => "a".to_owned(),
    }
}

fn decode(text: &str) -> Hint {
    match text.split_at_checked(1) {
        Some(("q", queue)) => Hint::Queue(queue.to_owned()),
        Some(("r", queue)) => Hint::Rescan(queue.to_owned()),
        Some(("t", _)) => Hint::Timer,
        Some(("s", _)) => Hint::Schedule,
        Some(("g", _)) => Hint::Admission,
        Some(("x", _)) => Hint::Expiry,
        _ => Hint::Any,
    }
}

pub(super) async fn notify(shared: &Arc<Shared>, hints: &[Hint]) -> Result<()> {
    let texts: Vec<String> = hints.iter().map(encode).collect();
    let channel = channel(&shared.config.schema);
    shared.engine("notify executors", &shared.sql.notify, &[&channel, &texts]).await.map(drop)
}

/// How often the connection is probed, and the time limit of a probe. A client that only listens does not notice packets lost on the way to
/// a silent server.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// Opens a separate connection, which belongs to no pool because it is never given back.
pub(super) async fn listen(shared: &Arc<Shared>) -> Result<Option<Box<dyn HintStream>>> {
    if shared.pgbouncer {
        // A transaction pooler takes the session away after each statement.
        return Ok(None);
    }
    let context = ErrorContext { what: "listen for hints", label: &shared.label };
    let (sender, receiver) = mpsc::channel(BACKLOG);
    let connecting = Box::pin(shared.target.connect(None, Some(sender)));
    let conn = connecting.await.map_err(|failures| context.explain_failures(failures))?;
    let listen = format!("listen \"{}\"", channel(&shared.config.schema));
    timeout(shared.call_timeout, conn.batch_execute(&listen))
        .await
        .map_err(|_| context.timeout(shared.call_timeout))?
        .map_err(|error| {
            shared.heed(&conn, &error);
            context.explain(error)
        })?;
    let probe = AbortOnDropHandle::new(tokio::spawn(probe(conn, shared.target.clone())));
    Ok(Some(Box::new(Listener { receiver, label: shared.label.clone(), _probe: probe })))
}

/// Keeps a connection for as long as its server answers and has not been retired.
async fn probe(conn: Conn, target: Target) {
    loop {
        tokio::time::sleep(PROBE_INTERVAL).await;
        // An empty query plans nothing and begins no transaction.
        let answer = timeout(PROBE_INTERVAL, conn.batch_execute("")).await;
        if !matches!(answer, Ok(Ok(()))) || target.is_retired(&conn.info) {
            tracing::debug!("the connection to {} that listens for hints is given up", conn.info);
            return;
        }
    }
}

struct Listener {
    /// Ends with the connection.
    receiver: mpsc::Receiver<Notification>,
    label: ServerLabel,
    /// Owns the connection.
    _probe: AbortOnDropHandle<()>,
}

#[async_trait]
impl HintStream for Listener {
    async fn next(&mut self) -> Result<Hint> {
        self.receiver.recv().await.map(|note| decode(note.payload())).ok_or_else(|| {
            Error::new(
                ErrorKind::Unreachable,
                format!("the connection that listens for hints on {} was lost", self.label),
            )
            .already_logged()
        })
    }
}
