//! The program `jobwright`. All of its code is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    jobwright_cli::main()
}
