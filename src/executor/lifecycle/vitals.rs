//! The state of an executor's present session, for its observers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::executor::node::queue::Queue;
use crate::job::NodeId;

/// The present session. It lasts as long as the executor, over all sessions.
#[derive(Default)]
pub(crate) struct Vitals {
    state: Mutex<State>,
    /// Cancelled when the first session has opened its slots.
    open: CancellationToken,
}

/// The contents of [`Vitals`] at a moment.
#[derive(Clone, Default)]
pub(crate) struct State {
    /// Whether any lease was ever renewed.
    pub(crate) is_started: bool,
    /// Whether the executor has ended without being stopped.
    pub(crate) is_gone: bool,
    pub(crate) session: Option<Session>,
    /// The queues of the present session.
    pub(crate) queues: Vec<Arc<Queue>>,
}

/// A node that holds a lease.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) node: NodeId,
    /// When the lease was renewed last; before that, when it was granted.
    pub(crate) renewed: Instant,
    /// Whether it was renewed at all: a node claims nothing before that.
    pub(crate) is_proven: bool,
    /// When the node must stop its work.
    pub(crate) until: Instant,
    /// Why the last renewal failed.
    pub(crate) trouble: Option<String>,
}

impl Vitals {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn read(&self) -> State {
        self.lock().clone()
    }

    /// Notes that a session begins.
    pub(crate) fn begin(&self, node: NodeId, queues: Vec<Arc<Queue>>, granted: Instant, left: Duration) {
        let session = Session { node, renewed: granted, is_proven: false, until: granted + left, trouble: None };
        let mut state = self.lock();
        state.session = Some(session);
        state.queues = queues;
    }

    /// Notes a renewal that was sent at this instant.
    pub(crate) fn renewed(&self, sent: Instant, left: Duration) {
        let mut state = self.lock();
        state.is_started = true;
        if let Some(session) = &mut state.session {
            session.is_proven = true;
            (session.renewed, session.until, session.trouble) = (sent, sent + left, None);
        }
    }

    /// Notes that a renewal failed.
    pub(crate) fn not_renewed(&self, why: String) {
        if let Some(session) = &mut self.lock().session {
            session.trouble = Some(why);
        }
    }

    /// Notes that jobs can be claimed and handed over from now on.
    pub(crate) fn opened(&self) {
        self.open.cancel();
    }

    /// Waits until jobs can be claimed and handed over.
    pub(crate) async fn until_open(&self) {
        self.open.cancelled().await;
    }

    /// Notes that the executor has ended without being stopped.
    pub(crate) fn gone(&self) {
        self.lock().is_gone = true;
    }

    /// Notes that the session has ended.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.session = None;
        state.queues.clear();
    }
}
