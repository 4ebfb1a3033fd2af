//! The installation that the file belongs to.
//!
//! Each file has a random key for the tokens of hand-outs, and its digest serves as the id: a copy has it too until it is adopted. A file has no place
//! that would tell a copy from the original: it may be moved, restored and mounted anywhere.

use std::fmt::Write as _;

use rusqlite::Connection;
use sha2::{Digest, Sha256};

use super::audit;
use super::error::Work;
use super::external::REPORT_KEY;
use super::shared::Shared;
use crate::error::Result;
use crate::store::job_operations::check_name;
use crate::store::sections::section;
use crate::store::{Adoption, Installation};

const SQL: &str = include_str!("installation.sql");
const NEW_REPORT_KEY: &str = section(SQL, "new_report_key");

impl Shared {
    pub(super) async fn installation(&self) -> Result<Installation> {
        self.query("find out to which installation the database belongs", |connection, _| read(connection)).await
    }

    pub(super) async fn adopt(&self, adoption: Adoption, by: Option<&str>) -> Result<Installation> {
        check_name(by)?;
        let by = by.map(str::to_owned);
        self.write("adopt the database", move |connection, now| {
            let before = read(connection)?;
            if adoption == Adoption::Copy {
                connection.execute(NEW_REPORT_KEY, ())?;
            }
            let now_is = read(connection)?;
            let what = serde_json::json!({ "installation": now_is.id, "before": before });
            audit::write(connection, by.as_deref(), "adopt", &what, now)?;
            Ok(now_is)
        })
        .await
    }
}

fn read(connection: &Connection) -> Work<Installation> {
    let key: [u8; 32] = connection.prepare_cached(REPORT_KEY)?.query_row((), |row| row.get(0))?;
    Ok(Installation { id: Some(id_of(&key)), recorded: None, found: None })
}

/// Returns the digest of the key as a UUID. The key stays secret.
fn id_of(key: &[u8; 32]) -> String {
    let digest = Sha256::new().chain_update(b"jobwright installation ").chain_update(key).finalize();
    let mut id = String::new();
    for (at, byte) in digest.iter().take(16).enumerate() {
        if [4, 6, 8, 10].contains(&at) {
            id.push('-');
        }
        // Writing to a string can't fail.
        let _ = write!(id, "{byte:02x}");
    }
    id
}
