//! Where a test's database is, and its removal.

#[cfg(feature = "sqlite")]
use std::path::PathBuf;

use tokio::sync::OnceCell;

use crate::config::{DatabaseConfig, Secret};
#[cfg(feature = "sqlite")]
use crate::error::Error;
use crate::error::Result;
use crate::job::JobId;
use crate::store::postgres::testing::execute;

const PREFIX: &str = "jw_test_";

fn unique() -> String {
    format!("{PREFIX}{}", JobId::new().as_uuid().simple())
}

/// The location of a test's database. Dropping it removes everything of the test.
pub(super) enum TestLocation {
    Schema {
        server: DatabaseConfig,
        name: String,
    },
    #[cfg(feature = "sqlite")]
    Directory(PathBuf),
}

static SWEPT: OnceCell<()> = OnceCell::const_new();

impl TestLocation {
    /// Creates a name for a schema on a server, and a configuration whose connections look there first.
    pub(super) async fn schema(url: &str) -> Result<(Self, DatabaseConfig)> {
        let server = DatabaseConfig { max_connections: 4, ..DatabaseConfig::url(url) };
        SWEPT
            .get_or_init(|| async {
                if let Err(error) = sweep(&server).await {
                    tracing::warn!(%error, "schemas that killed tests left behind were not removed");
                }
            })
            .await;
        let name = unique();
        let config = DatabaseConfig { url: Secret::new(session(url, &name)), schema: name.clone(), ..server.clone() };
        Ok((Self::Schema { server, name }, config))
    }

    /// A directory, because SQLite keeps files beside the file.
    #[cfg(feature = "sqlite")]
    pub(super) fn directory() -> Result<(Self, DatabaseConfig)> {
        let directory = std::env::temp_dir().join(unique());
        std::fs::create_dir(&directory).map_err(|error| {
            let shown = directory.display();
            Error::config(format!("the directory {shown} for a test's database can't be made: {error}"))
                .with_source(error)
        })?;
        let config = DatabaseConfig::url(format!("sqlite:{}", directory.join("test.db").display()));
        Ok((Self::Directory(directory), config))
    }
}

/// Names sessions after the schema, and puts its tables before those of `public`.
fn session(url: &str, schema: &str) -> String {
    if !url.contains("://") {
        return format!("{url} application_name={schema} options='-c search_path={schema},public'");
    }
    let mark = if url.contains('?') { '&' } else { '?' };
    format!("{url}{mark}application_name={schema}&options=-c%20search_path%3D{schema}%2Cpublic")
}

/// Removes the schemas of tests that were killed more than a day ago. The names end in a `UUIDv7`, which contains their age.
async fn sweep(server: &DatabaseConfig) -> Result<()> {
    let old = format!(
        "select nspname from pg_namespace where nspname ~ '^{PREFIX}[0-9a-f]{{32}}$' and nspname < '{PREFIX}' \
         || lpad(to_hex((extract(epoch from now() - interval '1 day') * 1000)::bigint), 12, '0') limit 20"
    );
    for name in execute(server, "look for schemas of old tests", &old).await? {
        remove(server, &name).await?;
    }
    Ok(())
}

/// Ends the test's connections and removes its schema. A context dropped on a stopped runtime may hold locks as long as its connection
/// lives.
async fn remove(server: &DatabaseConfig, schema: &str) -> Result<()> {
    let end = format!(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = '{schema}' and pid <> pg_backend_pid()"
    );
    execute(server, "end a test's connections", &end).await?;
    execute(server, "remove a test's schema", &format!("drop schema if exists {schema} cascade")).await.map(drop)
}

impl Drop for TestLocation {
    fn drop(&mut self) {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Directory(directory) => {
                if let Err(error) = std::fs::remove_dir_all(&*directory) {
                    tracing::warn!(%error, directory = %directory.display(), "a test's database was left behind");
                }
            }
            Self::Schema { server, name } => {
                let (server, name) = (server.clone(), name.clone());
                // Runs on a thread with its own runtime: the test's runtime is blocked by this drop, or shutting down with the test.
                let removing = std::thread::spawn(move || -> std::result::Result<(), String> {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                    let runtime = runtime.map_err(|error| error.to_string())?;
                    let removed = runtime.block_on(remove(&server, &name));
                    removed.map_err(|error| format!("the schema {name} was left behind: {error}"))
                });
                if let Ok(Err(why)) = removing.join() {
                    tracing::warn!("{why}");
                }
            }
        }
    }
}
