//! Schema changes: numbered SQL files, embedded, with a checksum, applied once and in order.

use std::fmt::Write as _;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorKind, Result};

/// One schema change as it is embedded in this build.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Its number; the first is 1, without gaps.
    pub version: i32,
    /// Its name.
    pub name: &'static str,
    /// The SQL, with `{schema}` where the name of the schema goes.
    pub sql: &'static str,
}

impl Migration {
    /// SHA-256 of the text, as hex: finds files that were edited after they were applied.
    pub fn checksum(&self) -> String {
        Sha256::digest(self.sql).iter().fold(String::new(), |mut hex, byte| {
            // Writing to a string can't fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}

/// How one schema change stands in a database.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct MigrationStatus {
    /// Its number.
    pub version: i32,
    /// Its name.
    pub name: String,
    /// When it was applied; `None` = it is missing.
    pub applied_at: Option<Timestamp>,
    /// Whether this build knows it.
    pub known: bool,
}

/// What the database says was applied.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    pub(crate) version: i32,
    pub(crate) name: String,
    pub(crate) checksum: String,
    pub(crate) at: Timestamp,
}

/// Compares what is applied with what this build has.
///
/// # Errors
/// When an applied file differs from the embedded one.
pub(crate) fn compare(embedded: &[Migration], applied: &[Applied], place: &str) -> Result<Vec<MigrationStatus>> {
    let mut all = Vec::new();
    for migration in embedded {
        let found = applied.iter().find(|row| row.version == migration.version);
        if let Some(row) = found
            && row.checksum != migration.checksum()
        {
            return Err(Error::new(
                ErrorKind::Schema,
                format!(
                    "migration {} ({}) of {place} was applied with other text than this build has: \
                     use the build that applied it, or restore the schema",
                    row.version, row.name
                ),
            ));
        }
        all.push(MigrationStatus {
            version: migration.version,
            name: migration.name.to_owned(),
            applied_at: found.map(|row| row.at),
            known: true,
        });
    }
    let newest = embedded.last().map_or(0, |migration| migration.version);
    all.extend(applied.iter().filter(|row| row.version > newest).map(|row| MigrationStatus {
        version: row.version,
        name: row.name.clone(),
        applied_at: Some(row.at),
        known: false,
    }));
    Ok(all)
}

/// Refuses a schema that this build does not know: an old build must never touch a newer schema.
pub(crate) fn refuse_newer(status: &[MigrationStatus], place: &str) -> Result<()> {
    match status.iter().rfind(|row| !row.known) {
        Some(newer) => Err(Error::new(
            ErrorKind::Schema,
            format!(
                "{place} has schema version {} ({}), which is newer than this build: upgrade jobwright here",
                newer.version, newer.name
            ),
        )),
        None => Ok(()),
    }
}

/// Refuses a schema that is newer, or not complete.
pub(crate) fn check(status: &[MigrationStatus], place: &str) -> Result<()> {
    refuse_newer(status, place)?;
    match status.iter().find(|row| row.applied_at.is_none()) {
        Some(missing) => Err(Error::new(
            ErrorKind::Schema,
            format!(
                "{place} lacks schema version {} ({}): run `jobwright migrate`, or call `MessageServices::migrate`",
                missing.version, missing.name
            ),
        )),
        None => Ok(()),
    }
}
