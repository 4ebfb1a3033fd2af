//! A program and the processes it started.

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::Child;

/// The process group of a program. Dropping it kills the remaining processes.
pub(super) struct Group(Option<Pid>);

impl Group {
    pub(super) fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw))
    }

    pub(super) fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            // It may have ended already.
            let _ = killpg(group, signal);
        }
    }

    /// Kills the processes that an ended program left. Nothing is killed after that, because the number may soon belong to another group.
    /// It can't while any process of the group remains.
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
