//! One benchmark of the harness, against the servers.

use crate::run::{self, Result};
use crate::services;

pub(crate) fn run(args: &[String]) -> Result<()> {
    let urls = services::up()?;
    let mut command = run::cargo(["run", "--release", "--package", "jobwright-bench", "--"]);
    run::run(command.args(args).envs(urls.variables()), None)
}
