//! A program and what it started.

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::Child;

/// The process group of a program. Dropping it kills whoever is left.
pub(super) struct Group(Option<Pid>);

impl Group {
    pub(super) fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw))
    }

    pub(super) fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // It may have ended by itself.
            let _ = killpg(group, signal);
        }
    }

    /// The program has ended: kills what it left, and nothing ever after, since the number may soon belong to somebody else. While anybody is left in
    /// the group, it can't.
    pub(super) fn end(&mut self) {
        self.signal(Signal::SIGKILL);
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}
