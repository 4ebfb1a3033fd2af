//! Helpers for this project's own tests; not part of any API.

use std::sync::{LazyLock, Mutex, PoisonError};

use clap::{Command, CommandFactory as _, FromArgMatches as _};

use crate::args::Cli;
use crate::config::Settings;

/// Reads a configuration file with this text, and environment variables.
///
/// # Errors
/// When they are refused, with the message for people.
pub fn settings(file: &str, variables: &[(String, String)]) -> Result<(), String> {
    let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
    Settings::from_text(file, variables).map(drop).map_err(|failure| failure.to_string())
}

/// Parses a command line, and checks it as far as that is possible without a database.
///
/// # Errors
/// When it is refused, with the message for people.
pub fn words(words: &[String]) -> Result<(), String> {
    // Built once and not cloned: either takes longer than parsing.
    static COMMAND: LazyLock<Mutex<Command>> = LazyLock::new(|| {
        let mut command = Cli::command();
        command.build();
        Mutex::new(command)
    });
    let mut command = COMMAND.lock().unwrap_or_else(PoisonError::into_inner);
    let read = command.try_get_matches_from_mut(words).and_then(|found| Cli::from_arg_matches(&found));
    read.map(drop).map_err(|error| error.to_string())
}
