//! Arguments of `jobwright completions`.

use clap::Args;
use clap_complete::Shell;

pub(super) const COMPLETIONS_HELP: &str = "\
Needs no database and no configuration.

Example:
  jobwright completions bash > ~/.local/share/bash-completion/completions/jobwright
  jobwright completions zsh > ~/.zfunc/_jobwright
  jobwright completions fish > ~/.config/fish/completions/jobwright.fish";

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    pub(crate) shell: Shell,
}
