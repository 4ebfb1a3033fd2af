//! The program `jobwright`; all of it is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    jobwright_cli::main()
}
