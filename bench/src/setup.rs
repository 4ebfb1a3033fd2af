//! A separate database if the role may create one, and a fresh schema for each run.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jobwright::{DatabaseConfig, MessageServices};
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{Client, Config, Connection, NoTls, Socket};

use crate::Result;
use crate::args::Args;
use crate::server::Server;

/// The context of all cases.
pub(crate) struct Bench<'a> {
    pub(crate) args: &'a Args,
    pub(crate) server: Server,
    url: String,
    /// The database created for this run of the harness, and the URL of the one it was created from.
    own: Option<(String, String)>,
    schemas: AtomicU32,
    databases: AtomicU32,
}

/// A database for a peer's tables.
pub(crate) struct Database {
    name: String,
    pub(crate) url: String,
}

impl Database {
    pub(crate) async fn connect(&self) -> Result<Client> {
        connect(&self.url).await
    }
}

/// A schema with the tables of this build.
pub(crate) struct Schema {
    pub(crate) name: String,
    pub(crate) config: DatabaseConfig,
}

impl Schema {
    pub(crate) fn table(&self) -> String {
        format!("{}.job", self.name)
    }

    /// Vacuums all tables, which leaves them as after an idle while.
    pub(crate) async fn vacuum(&self, client: &Client) -> Result<()> {
        let sql =
            "select string_agg(format('%I.%I', schemaname, tablename), ', ') from pg_tables where schemaname = $1";
        let tables: String = client.query_one(sql, &[&self.name]).await?.get(0);
        Ok(client.batch_execute(&format!("vacuum (analyze) {tables}")).await?)
    }

    /// Returns message services with separate connections.
    pub(crate) async fn services(&self) -> Result<MessageServices> {
        Ok(MessageServices::postgres(&self.config).await?)
    }
}

impl<'a> Bench<'a> {
    pub(crate) async fn open(args: &'a Args) -> Result<Self> {
        let url = std::env::var("DATABASE_URL")
            .map_err(|_| "DATABASE_URL is not set: name a PostgreSQL server as postgres://user@host:5432/database")?;
        let first = connect(&url).await?;
        // The counters of the database then count our work only. The name identifies its creator if it is ever left behind.
        let name = format!("jobwright_bench_{}", std::process::id());
        let own = match first.batch_execute(&format!("create database {name}")).await {
            Ok(()) => Some((name.clone(), url.clone())),
            Err(error) => {
                eprintln!("no database of our own ({error}): counters include what else happens in this one");
                None
            }
        };
        let url = if own.is_some() { with_database(&url, &name) } else { url };
        let server = Server::new(connect(&url).await?, first).await?;
        Ok(Self { args, server, url, own, schemas: AtomicU32::new(0), databases: AtomicU32::new(0) })
    }

    /// Returns the conditions that the figures depend on.
    pub(crate) async fn describe(&self) -> Result<Vec<(String, String)>> {
        let mut facts = self.server.describe().await?;
        let own = if self.own.is_some() { "own" } else { "shared" };
        facts.push(("database".to_owned(), own.to_owned()));
        facts.push(("runs".to_owned(), self.args.runs.to_string()));
        if self.args.quick {
            facts.push(("counts".to_owned(), "--quick: too small for figures".to_owned()));
        }
        Ok(facts)
    }

    pub(crate) async fn connect(&self) -> Result<Client> {
        connect(&self.url).await
    }

    /// Opens a connection for a bare loop, with the library's settings: its statements use their indexes whatever the statistics say.
    pub(crate) async fn connect_bare(&self) -> Result<Client> {
        let client = self.connect().await?;
        client.batch_execute("set enable_seqscan = off; set enable_bitmapscan = off; set jit = off").await?;
        Ok(client)
    }

    pub(crate) async fn schema(&self) -> Result<Schema> {
        let n = self.schemas.fetch_add(1, Ordering::Relaxed);
        let name = format!("jobwright_bench_{}_{n}", std::process::id());
        let config = DatabaseConfig::url(self.url.clone()).schema(name.clone());
        let schema = Schema { name, config };
        schema.services().await?.migrate().await?;
        Ok(schema)
    }

    pub(crate) async fn drop(&self, schema: Schema) -> Result<()> {
        self.server.client().batch_execute(&format!("drop schema {} cascade", schema.name)).await?;
        Ok(())
    }

    /// Creates a new database on the same server.
    pub(crate) async fn database(&self) -> Result<Database> {
        let n = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = database_name(n);
        self.server.client().batch_execute(&format!("create database {name}")).await?;
        Ok(Database { url: with_database(&self.url, &name), name })
    }

    pub(crate) async fn drop_database(&self, database: Database) -> Result<()> {
        // Connections to it that were just closed need a little time to end.
        for _ in 0..20 {
            let sql = format!("drop database if exists {}", database.name);
            if self.server.client().batch_execute(&sql).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // FORCE: programs that were killed may still have connections.
        let sql = format!("drop database if exists {} with (force)", database.name);
        Ok(self.server.client().batch_execute(&sql).await?)
    }

    /// Removes everything left on the server.
    pub(crate) async fn close(self) -> Result<()> {
        for n in 0..self.databases.load(Ordering::Relaxed) {
            let sql = format!("drop database if exists {} with (force)", database_name(n));
            self.server.client().batch_execute(&sql).await?;
        }
        match self.own {
            Some((name, url)) => {
                drop(self.server);
                let client = connect(&url).await?;
                // FORCE: executors that were interrupted may still have connections.
                client.batch_execute(&format!("drop database if exists {name} with (force)")).await?;
            }
            None => {
                for n in 0..self.schemas.load(Ordering::Relaxed) {
                    let sql = format!("drop schema if exists jobwright_bench_{}_{n} cascade", std::process::id());
                    self.server.client().batch_execute(&sql).await?;
                }
            }
        }
        Ok(())
    }
}

fn database_name(n: u32) -> String {
    format!("jobwright_bench_{}_peer_{n}", std::process::id())
}

/// Connects, and says if the connection breaks.
pub(crate) async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = open(url).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            eprintln!("a connection of the benchmark broke: {error}");
        }
    });
    Ok(client)
}

/// Connects to a server that may be restarted.
pub(crate) async fn connect_for_a_while(url: &str) -> Result<Client> {
    let (client, connection) = open(url).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn open(url: &str) -> Result<(Client, Connection<Socket, NoTlsStream>)> {
    let mut config: Config = url.parse().map_err(|_| "DATABASE_URL can't be read")?;
    config.application_name("jobwright-bench").connect_timeout(Duration::from_secs(5));
    Ok(config.connect(NoTls).await.map_err(|e| format!("no connection to DATABASE_URL: {e}"))?)
}

/// Returns the URL of another database on the same server.
pub(crate) fn with_database(url: &str, name: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        // Keywords and values: the last one counts.
        return format!("{url} dbname={name}");
    };
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, format!("?{query}")),
        None => (rest, String::new()),
    };
    let authority = rest.rsplit_once('@').map_or(0, |(user, _)| user.len() + 1);
    let end = rest[authority..].find('/').map_or(rest.len(), |slash| authority + slash);
    format!("{scheme}://{}/{name}{query}", &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::with_database;

    #[test]
    fn the_database_of_a_url_is_replaced() {
        for (url, other) in [
            ("postgres://u:a/b@h:1/d?sslmode=disable", "postgres://u:a/b@h:1/n?sslmode=disable"),
            ("postgres://h", "postgres://h/n"),
            ("host=h dbname=d", "host=h dbname=d dbname=n"),
        ] {
            assert_eq!(with_database(url, "n"), other);
        }
    }
}
