//! Servers for one command.

use super::state::Started;
use super::{Service, folder, process};
use crate::run::Result;

/// A server that ends with this value.
pub(crate) struct Private {
    pub(super) started: Started,
    name: &'static str,
    stop: &'static str,
}

impl Private {
    /// Takes over a server of this kind.
    pub(super) fn of<S: Service>(started: Result<Started>) -> Result<Self> {
        started.map(|started| Self { started, name: S::NAME, stop: S::STOP })
    }

    pub(crate) fn url(&self) -> &str {
        self.started.url.as_str()
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        let Started { pid, mark, dir, .. } = &self.started;
        if let Err(why) = process::terminate(self.name, *pid, mark, self.stop).and_then(|()| folder::remove(dir)) {
            eprintln!("{}: {why}", self.name);
        }
    }
}
