//! Hints between processes, over LISTEN and NOTIFY. They may get lost; polling is the truth.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_postgres::Notification;
use tokio_util::task::AbortOnDropHandle;

use super::Shared;
use super::connect::{Conn, Target};
use super::error::Doing;
use super::server::Server;
use super::statements::channel;
use crate::error::{Error, ErrorKind, Result};
use crate::store::{Hint, HintStream};

/// Hints that may wait to be read. More are dropped: one that is waiting already says the same.
const BACKLOG: usize = 1024;

/// As written into a notification: a letter, then a queue's name.
fn encode(hint: &Hint) -> String {
    match hint {
        Hint::Queue(queue) => format!("q{queue}"),
        Hint::Rescan(queue) => format!("r{queue}"),
        Hint::Timer => "t".to_owned(),
        Hint::Schedule => "s".to_owned(),
        Hint::Gate => "g".to_owned(),
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
        Some(("g", _)) => Hint::Gate,
        Some(("x", _)) => Hint::Expiry,
        _ => Hint::Any,
    }
}

pub(super) async fn notify(shared: &Arc<Shared>, hints: &[Hint]) -> Result<()> {
    let texts: Vec<String> = hints.iter().map(encode).collect();
    let channel = channel(&shared.config.schema);
    shared.engine("notify executors", &shared.sql.notify, &[&channel, &texts]).await.map(drop)
}

/// How often the server is asked for a sign of life, and how long that may take: what is lost on the way to a silent server is not
/// noticed by who only listens.
const PULSE: Duration = Duration::from_secs(5);

/// Opens a connection of its own: it belongs to no pool, because it is never given back.
pub(super) async fn listen(shared: &Arc<Shared>) -> Result<Option<Box<dyn HintStream>>> {
    if shared.pgbouncer {
        // A transaction pooler takes the session away after each statement.
        return Ok(None);
    }
    let doing = Doing { what: "listen for hints", place: &shared.place };
    let (sender, receiver) = mpsc::channel(BACKLOG);
    let connecting = Box::pin(shared.target.connect(None, Some(sender)));
    let conn = connecting.await.map_err(|failures| doing.explain_failures(failures))?;
    let listen = format!("listen \"{}\"", channel(&shared.config.schema));
    timeout(shared.call_timeout, conn.batch_execute(&listen))
        .await
        .map_err(|_| doing.timeout(shared.call_timeout))?
        .map_err(|error| {
            shared.heed(&conn, &error);
            doing.explain(error)
        })?;
    let pulse = AbortOnDropHandle::new(tokio::spawn(pulse(conn, shared.target.clone())));
    Ok(Some(Box::new(Listener { receiver, place: shared.place.clone(), _pulse: pulse })))
}

/// Keeps a connection for as long as its server answers and is the one to listen to.
async fn pulse(conn: Conn, target: Target) {
    loop {
        tokio::time::sleep(PULSE).await;
        // An empty query: nothing is planned, and no transaction begins.
        let answer = timeout(PULSE, conn.batch_execute("")).await;
        if !matches!(answer, Ok(Ok(()))) || target.is_retired(&conn.line) {
            tracing::debug!("the connection to {} that listens for hints is given up", conn.line.place);
            return;
        }
    }
}

struct Listener {
    /// Ends with the connection.
    receiver: mpsc::Receiver<Notification>,
    place: Server,
    /// Has the connection.
    _pulse: AbortOnDropHandle<()>,
}

#[async_trait]
impl HintStream for Listener {
    async fn next(&mut self) -> Result<Hint> {
        self.receiver.recv().await.map(|note| decode(note.payload())).ok_or_else(|| {
            Error::new(
                ErrorKind::Unreachable,
                format!("the connection that listens for hints on {} was lost", self.place),
            )
            .told()
        })
    }
}
