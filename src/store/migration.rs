//! Schema migrations: numbered SQL files that are embedded, have checksums, and are applied once and in order.

use std::fmt::Write as _;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorKind, Result};

/// A migration that is embedded in this build.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// Its number: 1 for the first, and greater than that of the one before.
    pub version: i32,
    /// Its name.
    pub name: &'static str,
    /// The oldest schema version whose builds run on the schema with this change. A step that only adds names the first of its compatible
    /// series, so executors of the previous release go on while the schema is upgraded.
    pub min_compatible: i32,
    /// The SQL, with `{schema}` in place of the schema's name.
    ///
    /// It is one transaction, so it changes one table that others use: it would hold the lock of the first while it waits for the next. A change of
    /// several tables is several migrations.
    pub sql: &'static str,
    /// A statement that fills in existing rows after `sql` was committed. It changes a limited number of rows, and runs in transactions of
    /// its own until it changes none. So it must not skip rows that others have locked. Senders of the previous release add rows meanwhile and
    /// later, so what it fills in must also be readable while it is missing.
    pub backfill: Option<&'static str>,
}

impl Migration {
    /// Returns the SHA-256 of the text, as hex. It shows files that were edited after they were applied.
    pub fn checksum(&self) -> String {
        Sha256::digest(self.sql).iter().fold(String::new(), |mut hex, byte| {
            // Writing to a string can't fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}

/// Returns the changes of this build and, numbered behind them, those of a later one.
pub(crate) fn later(embedded: &[Migration], more: &[Migration]) -> Vec<Migration> {
    let next = embedded.last().map_or(1, |newest| newest.version + 1);
    let more = more.iter().zip(next..).map(|(step, version)| Migration { version, ..*step });
    embedded.iter().copied().chain(more).collect()
}

/// The status of a migration in a database.
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
    /// Whether this build runs on a schema with it.
    pub compatible: bool,
}

/// A migration that the database has on record as applied.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    pub(crate) version: i32,
    pub(crate) name: String,
    pub(crate) min_compatible: i32,
    /// Whether all rows are filled in.
    pub(crate) is_filled: bool,
    pub(crate) checksum: String,
    pub(crate) at: Timestamp,
}

/// Compares the applied migrations with those of this build.
///
/// # Errors
/// When the text of an applied migration differs from the embedded one.
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
                     use the build that applied it, or restore the schema. A schema of a build from before 0.1.0 can't be upgraded: \
                     drop it, and run `jobwright migrate`",
                    row.version, row.name
                ),
            ));
        }
        all.push(MigrationStatus {
            version: migration.version,
            name: migration.name.to_owned(),
            applied_at: found.filter(|row| row.is_filled).map(|row| row.at),
            known: true,
            compatible: true,
        });
    }
    let newest = embedded.last().map_or(0, |migration| migration.version);
    all.extend(applied.iter().filter(|row| row.version > newest).map(|row| MigrationStatus {
        version: row.version,
        name: row.name.clone(),
        applied_at: Some(row.at),
        known: false,
        compatible: row.min_compatible <= newest,
    }));
    Ok(all)
}

/// The error for a table of changes that lacks columns which it has had since the first release.
pub(crate) fn unreleased(place: &str) -> Error {
    Error::new(
        ErrorKind::Schema,
        format!(
            "the schema of {place} was made by a build from before 0.1.0 and can't be upgraded: drop it (of an embedded database, remove the \
             file), and run `jobwright migrate`"
        ),
    )
}

/// Refuses a schema with a newer change that this build does not run on. A build never changes a newer schema.
pub(crate) fn refuse_newer(status: &[MigrationStatus], place: &str) -> Result<()> {
    match status.iter().rfind(|row| !row.compatible) {
        Some(newer) => Err(Error::new(
            ErrorKind::Schema,
            format!(
                "{place} has schema version {} ({}), which this build is too old for: upgrade jobwright here",
                newer.version, newer.name
            ),
        )),
        None => Ok(()),
    }
}

/// Refuses a schema that is too new for this build, or not complete.
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
