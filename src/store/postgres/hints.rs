//! Hints between processes, over LISTEN and NOTIFY. They may get lost; polling is the truth.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_postgres::AsyncMessage;

use super::Shared;
use super::error::Doing;
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

/// Opens a connection of its own: it belongs to no pool, because it is never given back.
pub(super) async fn listen(shared: &Arc<Shared>) -> Result<Option<Box<dyn HintStream>>> {
    if shared.pgbouncer {
        // A transaction pooler takes the session away after each statement.
        return Ok(None);
    }
    let doing = Doing { what: "listen for hints", place: &shared.place };
    let target = &shared.target;
    let connected = timeout(shared.config.connect_timeout, target.config.connect(target.tls.clone()))
        .await
        .map_err(|_| doing.timeout(shared.config.connect_timeout))?;
    let (client, mut connection) = connected.map_err(|e| doing.explain(e))?;
    let (sender, receiver) = mpsc::channel(BACKLOG);
    // Ends when the client is dropped, or the connection breaks; either way the receiver sees the end.
    tokio::spawn(async move {
        loop {
            match std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                Some(Ok(AsyncMessage::Notification(note))) => {
                    let _ = sender.try_send(decode(note.payload()));
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => break,
            }
        }
    });
    let listen = format!("listen \"{}\"", channel(&shared.config.schema));
    timeout(shared.call_timeout, client.batch_execute(&listen))
        .await
        .map_err(|_| doing.timeout(shared.call_timeout))?
        .map_err(|e| doing.explain(e))?;
    Ok(Some(Box::new(Listener { receiver, place: shared.place.clone(), _client: client })))
}

struct Listener {
    receiver: mpsc::Receiver<Hint>,
    place: String,
    /// Dropping it ends the connection.
    _client: tokio_postgres::Client,
}

#[async_trait]
impl HintStream for Listener {
    async fn next(&mut self) -> Result<Hint> {
        self.receiver.recv().await.ok_or_else(|| {
            Error::new(
                ErrorKind::Unreachable,
                format!("the connection that listens for hints on {} was lost", self.place),
            )
        })
    }
}
