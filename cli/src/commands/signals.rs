//! The signals that ask a process to stop.

use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// Signals within this time count as one: a terminal and `timeout -s INT` signal the whole group, and calling programs pass the signal on.
const SAME: Duration = Duration::from_secs(1);

/// The signals that tell a process to stop.
pub(crate) struct Signals {
    /// Time of the last signal that counted.
    last: Option<Instant>,
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Listens from now on.
    pub(crate) fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::Failed(format!("the program can't wait for signals: {error}")))
        };
        Ok(Self {
            last: None,
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Returns the name of the next signal.
    pub(crate) async fn next(&mut self) -> &'static str {
        loop {
            let name = tokio::select! {
                _ = self.interrupt.recv() => "SIGINT",
                _ = self.terminate.recv() => "SIGTERM",
            };
            if self.last.is_none_or(|last| last.elapsed() >= SAME) {
                self.last = Some(Instant::now());
                return name;
            }
        }
    }
}
