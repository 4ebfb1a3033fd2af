//! `jobwright completions`.

use clap::CommandFactory as _;

use crate::args::{Cli, CompletionsArgs};
use crate::failure::Failure;
use crate::output::print;

pub(crate) fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    // Not straight to stdout: the generator panics where its reader has gone.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "jobwright", &mut script);
    print(script)
}
