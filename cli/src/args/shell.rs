//! Arguments of `jobwright completions` and `jobwright man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

pub(super) const COMPLETIONS_HELP: &str = "\
The script goes to stdout, and completes the commands and options of this version: make it again after an upgrade.

Example:
  jobwright completions bash > ~/.local/share/bash-completion/completions/jobwright
  jobwright completions zsh > /usr/local/share/zsh/site-functions/_jobwright
  jobwright completions fish > ~/.config/fish/completions/jobwright.fish";

pub(super) const MAN_HELP: &str = "\
There is a page for each command: jobwright.1, jobwright-jobs.1, jobwright-jobs-list.1 and so on. Pages of the same names are replaced. Run it when
a package of the program is built, after `cargo install`, and again after an upgrade.

Example:
  jobwright man ~/.local/share/man/man1
  man jobwright-jobs-list";

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell that reads the script.
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Where the pages go, created if it is missing.
    pub(crate) directory: PathBuf,
}
