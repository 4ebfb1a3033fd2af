//! The handle of the store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::identity::Identity;
use super::liveness_files::LivenessFiles;
use super::place::Place;
use super::serial_connection::SerialConnection;
use super::shared::Shared;
use super::{migrate, open};
use crate::config::{Access, Backend, DatabaseConfig, HistoryConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::store::StoreInfo;

/// A store in an SQLite file. Cheap to clone; all clones share its connections.
///
/// A transaction of a context holds the file's only write lock from its first statement to its end. All other writers wait for it, at most
/// for `database.call_timeout`, and then fail with [`ErrorKind::Busy`].
#[derive(Clone, Debug)]
pub struct Sqlite(pub(super) Arc<Shared>);

impl Sqlite {
    /// Opens the file that the URL `sqlite:FILE` names. Creates it if it does not exist and [`DatabaseConfig::access`] allows that; its
    /// directory must exist. All names of a file lead to the same database; a file with several hard links, or one that is mounted on its
    /// own, is refused, because its names don't share the files beside it. The tables are not created: see [`MessageServices::migrate`](crate::MessageServices::migrate).
    ///
    /// # Errors
    /// [`Config`](ErrorKind::Config) if the URL names no SQLite file, or one that can't be used; [`ReadOnly`](ErrorKind::ReadOnly) if the
    /// file can't be written; [`Unreachable`](ErrorKind::Unreachable) if it can't be opened; [`Timeout`](ErrorKind::Timeout) or
    /// [`Busy`](ErrorKind::Busy) if that took longer than `database.connect_timeout`.
    pub async fn open(config: &DatabaseConfig) -> Result<Self> {
        config.validate()?;
        let Backend::Sqlite(file) = config.backend()? else {
            return Err(Error::config("the database URL does not name an SQLite file: use `sqlite:FILE`"));
        };
        // Absolute, so that later connections open the same file even if the working directory changes.
        let path = std::path::absolute(file)
            .map_err(|error| Error::config(format!("the database file {file:?} can't be found")).with_source(error))?;
        Self::open_path(path, None, config.access, config.call_timeout, config.connect_timeout, config.history.clone())
            .await
    }

    /// Opens the file at a path, or the file that is open already at the place `same`.
    pub(super) async fn open_path(
        path: PathBuf,
        same: Option<(Place, Identity)>,
        access: Access,
        call_timeout: Duration,
        connect_timeout: Duration,
        history: HistoryConfig,
    ) -> Result<Self> {
        let label = format!("sqlite:{}", path.display());
        let name = label.clone();
        let (place, identity, [writer, checks, queries]) = open::opening(&label, connect_timeout, move |deadline| {
            let (place, same) = match same {
                Some((place, same)) => {
                    same.still_at(&place)?;
                    (place, Some(same))
                }
                None => {
                    let place = Place::find(&path)?;
                    // Before SQLite opens the file and creates a log beside one of its names.
                    place.refuse_unshareable()?;
                    (place, None)
                }
            };
            let file = place.path();
            let writer = open::open_writer(file, &name, access, deadline)?;
            let checks = open::open_reader(file, &name, call_timeout, deadline)?;
            let queries = open::open_reader(file, &name, call_timeout, deadline)?;
            // Checked last: either all three connections have the file that has the name now, or the replacement is detected.
            let identity = same.map_or_else(|| opened(file), Ok)?;
            identity.still_at(&place)?;
            Ok((place, identity, [writer, checks, queries].map(SerialConnection::new)))
        })
        .await?;
        let liveness_files = Arc::new(LivenessFiles::new(place.path()));
        let shared = Shared {
            place,
            identity,
            label,
            call_timeout,
            connect_timeout,
            writer,
            lent: AtomicBool::new(false),
            checks,
            queries,
            history,
            liveness_files,
        };
        Ok(Self(Arc::new(shared)))
    }

    /// Returns the path of the file itself: absolute, and without links.
    #[doc(hidden)]
    pub fn path(&self) -> &Path {
        self.0.place.path()
    }

    /// Returns the schema changes of this build as SQL, for a file without the tables. A program migrates its file when it opens it.
    pub fn migrations() -> String {
        migrate::script()
    }
}

/// Identifies the file that was just opened.
fn opened(file: &Path) -> Result<Identity> {
    Identity::of(file)?.ok_or_else(|| {
        let text = format!("the file was moved or replaced: sqlite:{} was removed while it was opened", file.display());
        Error::new(ErrorKind::Replaced, text)
    })
}

impl StoreInfo for Sqlite {
    fn describe(&self) -> String {
        self.0.label.clone()
    }

    fn is_single_writer(&self) -> bool {
        true
    }

    fn history_config(&self) -> HistoryConfig {
        self.0.history.clone()
    }
}
