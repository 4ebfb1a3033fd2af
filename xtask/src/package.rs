//! The library as a program gets it: with the files that are in the package, and without our patch of a dependency.

use crate::run::{self, Result};

pub(crate) fn run() -> Result<()> {
    let args = ["package", "--package", "jobwright", "--all-features", "--locked", "--allow-dirty"];
    run::run(&mut run::cargo(args), run::CARGO)
}
