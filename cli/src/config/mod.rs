//! The configuration: defaults < file < environment < flags.
//!
//! An unknown key is refused, with the nearest known one as a suggestion: a silently ignored setting costs more time than an error. A value
//! is only shown where it must be a duration or a policy: elsewhere it may be a misplaced secret.

mod handler;
mod keys;
mod queue;
mod seal;
mod settings;
mod sources;
#[cfg(test)]
mod tests;
mod trust;

use std::path::Path;

use jobwright::DatabaseConfig;

pub(crate) use self::handler::Action;
pub(crate) use self::settings::Settings;
use self::sources::{apply_environment, apply_file, apply_text};
pub(crate) use self::trust::other_writers;
use crate::failure::Failure;

/// Read if it exists and no other file is named.
const DEFAULT_FILE: &str = "jobwright.toml";

impl Settings {
    /// Reads all sources.
    pub(crate) fn load(
        file: Option<&Path>,
        database_url: Option<String>,
        amqp_url: Option<String>,
    ) -> Result<Self, Failure> {
        let default = Path::new(DEFAULT_FILE);
        let file = match file {
            Some(file) => Some((file, true)),
            None => match std::fs::symlink_metadata(default) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                // Also one that can't be read, and a link that leads nowhere: it may name another database than the default.
                _ => Some((default, false)),
            },
        };
        Self::from_sources(file, std::env::vars_os(), database_url, amqp_url)
    }

    /// Reads these sources. The file comes with whether the user named it.
    fn from_sources(
        file: Option<(&Path, bool)>,
        environment: impl IntoIterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
        database_url: Option<String>,
        amqp_url: Option<String>,
    ) -> Result<Self, Failure> {
        let mut settings = Self::default();
        if let Some((file, is_named)) = file {
            apply_file(&mut settings, file, is_named)?;
            settings.file = Some((file.to_owned(), settings.holds_secret()));
        }
        settings.and(environment, database_url, amqp_url)
    }

    /// Reads settings as from a file with this text.
    pub(crate) fn from_text(
        text: &str,
        environment: impl IntoIterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
    ) -> Result<Self, Failure> {
        let mut settings = Self::default();
        apply_text(&mut settings, text, DEFAULT_FILE)?;
        settings.and(environment, None, None)
    }

    /// Adds the sources after the file, and checks all settings.
    fn and(
        mut self,
        environment: impl IntoIterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
        database_url: Option<String>,
        amqp_url: Option<String>,
    ) -> Result<Self, Failure> {
        apply_environment(&mut self, environment)?;
        self.set_urls(database_url, amqp_url);
        if self.urls_withheld && self.database.url.expose() == DatabaseConfig::default().url.expose() {
            return Err(Failure::Usage(
                "no database is configured, and this is called by the handler of a job, whose worker keeps its URLs to itself: \
                 set `pass_urls = true` in its section `[handlers.KIND]`, or name the database in a configuration file"
                    .to_owned(),
            ));
        }
        self.database.backend()?;
        self.finish()?;
        Ok(self)
    }
}
