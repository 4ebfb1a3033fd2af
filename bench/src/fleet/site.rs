//! Where the fleet works: a database of its own, on a private server or on the one of `DATABASE_URL`.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use jobwright::{DatabaseConfig, MessageServices};
use tokio_postgres::Client;

use super::observer::Observer;
use super::private_server::PrivateServer;
use crate::Result;
use crate::server::Server;
use crate::setup::{connect, connect_for_a_while, with_database};

/// Most connections of an executor with the default configuration, with one to spare: 8 for contexts, 3 of the engine, the listener's, the
/// heartbeat's and the lock monitor's.
const MOST_OF_A_NODE: usize = 15;
/// Connections of the benchmark itself.
const OURS: usize = 40;

/// The database of the fleet. It has to be closed.
pub(super) struct Site {
    /// `None`: the server is that of `DATABASE_URL`.
    pub(super) private: Option<PrivateServer>,
    /// Another database of the same server, for those who watch.
    outside: String,
    pub(super) url: String,
    database: String,
    schemas: AtomicU32,
}

/// The tables of one measurement.
#[derive(Clone)]
pub(super) struct Tables {
    pub(super) schema: String,
    pub(super) config: DatabaseConfig,
}

impl Site {
    /// Opens a database for this many executors.
    pub(super) async fn open(nodes: usize) -> Result<Self> {
        let private = match std::env::var_os("DATABASE_URL") {
            Some(_) => None,
            None => Some(PrivateServer::start(nodes * MOST_OF_A_NODE + OURS).await?),
        };
        let outside = match &private {
            Some(server) => server.url(),
            None => std::env::var("DATABASE_URL").map_err(|_| "DATABASE_URL is not text in UTF-8")?,
        };
        let database = format!("jobwright_bench_{}", std::process::id());
        let client = connect(&outside).await?;
        client
            .batch_execute(&format!("create database {database}"))
            .await
            .map_err(|e| format!("the fleet needs a database of its own, and this role can't create one: {e}"))?;
        let row = client.query_one("select current_setting('max_connections')::int8", &[]).await?;
        let most: i64 = row.get(0);
        if most < (nodes * MOST_OF_A_NODE) as i64 {
            eprintln!("the server accepts {most} connections: it may refuse some of those that {nodes} nodes can open");
        }
        let url = with_database(&outside, &database);
        Ok(Self { private, outside, url, database, schemas: AtomicU32::new(0) })
    }

    /// Returns the conditions that the figures depend on.
    pub(super) async fn describe(&self) -> Result<Vec<(String, String)>> {
        let server = Server::new(connect(&self.url).await?, connect(&self.outside).await?).await?;
        let mut facts = server.describe().await?;
        let whose = if self.private.is_some() { "private" } else { "of DATABASE_URL" };
        facts.push(("server".to_owned(), whose.to_owned()));
        if cfg!(debug_assertions) {
            facts.push(("build".to_owned(), "without optimisations: no figures".to_owned()));
        }
        Ok(facts)
    }

    /// Creates tables, and waits until nobody is connected to the database.
    pub(super) async fn tables(&self) -> Result<Tables> {
        let n = self.schemas.fetch_add(1, Ordering::Relaxed);
        let schema = format!("fleet_{n}");
        let config = DatabaseConfig::url(self.url.clone()).schema(schema.clone());
        MessageServices::postgres(&config).await?.migrate().await?;
        let observer = self.observer().await?;
        let deadline = Instant::now() + Duration::from_secs(30);
        while observer.connections().await? > 0 {
            if Instant::now() > deadline {
                return Err("connections of an earlier part of the benchmark have not ended within 30 s".into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(Tables { schema, config })
    }

    /// Returns an observer of this database, connected to another one.
    pub(super) async fn observer(&self) -> Result<Observer> {
        Observer::new(connect_for_a_while(&self.outside).await?, self.database.clone()).await
    }

    /// Returns a connection to this database.
    pub(super) async fn client(&self) -> Result<Client> {
        connect(&self.url).await
    }

    /// Removes everything from the server.
    pub(super) async fn close(self) -> Result<()> {
        if self.private.is_some() {
            // It is removed as a whole.
            return Ok(());
        }
        // FORCE: executors that were interrupted may still have connections.
        let sql = format!("drop database if exists {} with (force)", self.database);
        Ok(connect(&self.outside).await?.batch_execute(&sql).await?)
    }
}

impl Tables {
    /// Returns how many jobs are in the tables, in all states.
    pub(super) async fn left(&self, client: &Client) -> Result<i64> {
        Ok(client.query_one(&format!("select count(*) from {}.jobs", self.schema), &[]).await?.get(0))
    }

    /// Waits until there are at most this many jobs. Returns how many there are when the time is over.
    pub(super) async fn until_left(&self, client: &Client, most: i64, patience: Duration) -> Result<i64> {
        let deadline = Instant::now() + patience;
        loop {
            let left = self.left(client).await?;
            if left <= most || Instant::now() > deadline {
                return Ok(left);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
