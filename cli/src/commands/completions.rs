//! `jobwright completions`: scripts that complete commands and flags in a shell.

use clap::CommandFactory as _;

use crate::args::{Cli, CompletionsArgs};
use crate::failure::Failure;
use crate::output::print;

pub(crate) fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    // Not written to stdout directly: the generator panics if its reader has gone.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "jobwright", &mut script);
    print(script)
}
