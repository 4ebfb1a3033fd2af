//! The installation that a database belongs to, and the place for which it was made.
//!
//! A restored or cloned database has all that the original has: jobs, schedules, the id of the installation. With the same broker it would take
//! submissions and reports of the original. Only the place tells a copy from the original.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};

/// How many digits of an id people are shown.
const SHOWN: usize = 8;

/// The installation that a database belongs to.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Installation {
    /// Its id, a UUID. `None`: the database has lost it, because it was restored without its rows.
    pub id: Option<String>,
    /// The place for which the database was made, or to which it was moved. `None`: an embedded database, whose file may be anywhere.
    pub recorded: Option<Place>,
    /// The place where it is.
    pub found: Option<Place>,
}

/// How a database that is not where it was made goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// It is a copy: it gets an id of its own, and a new key for the tokens of hand-outs.
    Copy,
    /// It takes the place of the original: it keeps its id.
    Moved,
}

/// A place of a database: a server, and a database and schema there.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Place {
    /// The system identifier of the server, which its standbys and physical backups share. `None`: it could not be read.
    pub server: Option<String>,
    /// The number (oid) of the database.
    pub database_oid: u32,
    /// The name of the database.
    pub database: String,
    /// The schema.
    pub schema: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, database_oid, database, schema } = self;
        write!(f, "database {database:?} (oid {database_oid})")?;
        match server {
            Some(server) => write!(f, " of the server {server}")?,
            None => f.write_str(" of a server whose identifier could not be read")?,
        }
        write!(f, ", schema {schema:?}")
    }
}

impl Place {
    /// Whether these are the same, as far as is known. With the identifier of the server on both sides, a database that was renamed is the same.
    fn is(&self, other: &Self) -> bool {
        let same_server = match (&self.server, &other.server) {
            (Some(one), Some(two)) => one == two,
            // Databases of different servers often have the same number.
            _ => self.database == other.database,
        };
        same_server && self.database_oid == other.database_oid && self.schema == other.schema
    }
}

impl Installation {
    /// Returns the beginning of its id, for people.
    pub fn short_id(&self) -> &str {
        self.id.as_deref().map_or("unknown", |id| id.get(..SHOWN).unwrap_or(id))
    }

    /// Returns whether the database is where its installation was made, as far as that can be found out. A physical copy (a base backup, a
    /// snapshot of the disk) can't be told from its original.
    pub fn is_at_home(&self) -> bool {
        self.id.is_some()
            && match (&self.recorded, &self.found) {
                (Some(recorded), Some(found)) => recorded.is(found),
                _ => true,
            }
    }

    /// Returns its id.
    ///
    /// # Errors
    /// When the database is a copy, or was moved. The message says how to go on.
    pub fn at_home(&self) -> Result<&str> {
        if let (Some(id), true) = (&self.id, self.is_at_home()) {
            return Ok(id);
        }
        Err(Error::new(ErrorKind::Installation, format!("{}; {TODO}", self.stray())))
    }

    /// Says where it is and where it should be.
    pub fn stray(&self) -> String {
        let place = |place: &Option<Place>| place.as_ref().map_or_else(String::new, ToString::to_string);
        if self.id.is_none() {
            return format!(
                "the table installation of the {} has no row: it was restored without its rows",
                place(&self.found)
            );
        }
        format!(
            "this is the {}, but its installation {} was made for the {}",
            place(&self.found),
            self.short_id(),
            place(&self.recorded)
        )
    }
}

/// What to do with a database that is not where it was made.
const TODO: &str = "as the owner of the schema, run `jobwright adopt` if this is a copy (it becomes a separate installation), or `jobwright adopt \
                    --moved` if it takes the place of the original, which is gone for good. Nothing was run, and nothing was taken from the broker";

#[cfg(test)]
mod tests {
    use super::*;

    fn place(server: Option<&str>, oid: u32, name: &str) -> Place {
        Place {
            server: server.map(str::to_owned),
            database_oid: oid,
            database: name.to_owned(),
            schema: "s".to_owned(),
        }
    }

    #[test]
    fn a_place_is_known_by_what_can_be_read() {
        let home = place(Some("7"), 16384, "bank");
        for (other, same) in [
            (place(Some("7"), 16384, "bank"), true),
            // A database that was renamed.
            (place(Some("7"), 16384, "bank_old"), true),
            (place(Some("7"), 16385, "bank"), false),
            (place(Some("8"), 16384, "bank"), false),
            // The role may not read the identifier.
            (place(None, 16384, "bank"), true),
            (place(None, 16384, "copy"), false),
            (place(None, 16385, "bank"), false),
            (Place { schema: "t".to_owned(), ..home.clone() }, false),
        ] {
            let found = Installation {
                id: Some("0123456789".to_owned()),
                recorded: Some(home.clone()),
                found: Some(other.clone()),
            };
            assert_eq!((found.is_at_home(), found.at_home().is_ok()), (same, same), "{other}");
        }
    }

    #[test]
    fn a_stray_copy_is_refused_with_both_places_and_both_remedies() {
        let stray = Installation {
            id: Some("01234567-89ab".to_owned()),
            recorded: Some(place(Some("7"), 16384, "bank")),
            found: Some(place(Some("7"), 16500, "copy")),
        };
        let said = stray.at_home().unwrap_err().to_string();
        for part in [
            "JW-INSTALLATION",
            "\"bank\" (oid 16384)",
            "\"copy\" (oid 16500)",
            "01234567",
            "as the owner of the schema",
            "adopt`",
            "adopt --moved`",
        ] {
            assert!(said.contains(part), "{said}");
        }
        let lost = Installation { id: None, recorded: None, ..stray };
        assert!(lost.at_home().unwrap_err().to_string().contains("has no row"));
    }
}
