//! The public API, compared with `docs/public-api.txt` by the program in `xtask/api`.

use crate::run::{self, Result};

pub(crate) fn run(write: bool) -> Result<()> {
    let mut command = run::cargo(["run", "--quiet", "--package", "xtask-api", "--locked", "--"]);
    run::run(command.args(write.then_some("--write")), run::CARGO)
}
