//! A PostgreSQL server that ends with the test, and a sandbox with a database there.

use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

use super::{Done, Sandbox};
use crate::private_pg::PrivatePg;

pub(crate) struct Server {
    pub(crate) postgres: PrivatePg,
    pub(crate) sandbox: Sandbox,
    runtime: Runtime,
}

impl Server {
    /// Starts it. `None`: there is no PostgreSQL to be tested with.
    pub(crate) fn start(start: impl FnOnce() -> PrivatePg) -> Option<Self> {
        if std::env::var("JOBWRIGHT_TEST_EMBEDDED_ONLY").is_ok_and(|value| value == "1") {
            return None;
        }
        let postgres = start();
        let sandbox = Sandbox::on_server(&postgres.url());
        Some(Self { postgres, sandbox, runtime: Runtime::new().unwrap() })
    }

    /// The same with a database of this name.
    pub(crate) fn with_database(name: &str, start: impl FnOnce() -> PrivatePg) -> Option<Self> {
        let mut server = Self::start(start)?;
        server.run(&format!("create database {name}"));
        server.sandbox = Sandbox::on_server(&server.url_of(name));
        Some(server)
    }

    /// Returns the URL of a database of this server.
    pub(crate) fn url_of(&self, database: &str) -> String {
        let url = self.postgres.url();
        format!("{}/{database}", url.rsplit_once('/').unwrap().0)
    }

    /// Opens a session as a superuser.
    pub(crate) fn session(&self, url: &str) -> Client {
        self.runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
            tokio::spawn(connection);
            client
        })
    }

    /// Runs statements in a session.
    pub(crate) fn run_in(&self, client: &Client, sql: &str) {
        self.runtime.block_on(client.batch_execute(sql)).unwrap();
    }

    /// Runs statements in a session of their own, in the database `postgres`.
    pub(crate) fn run(&self, sql: &str) {
        self.run_in(&self.session(&self.postgres.url()), sql);
    }

    /// Does something that needs a runtime.
    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Runs a command as a role, in this database.
    pub(crate) fn run_as(&self, user: &str, database: &str, args: &[&str]) -> Done {
        Done::from(self.command_as(user, database, args).output().unwrap())
    }

    /// Returns a command as a role, with a password after a colon if it needs one.
    pub(crate) fn command_as(&self, user: &str, database: &str, args: &[&str]) -> std::process::Command {
        let mut command = self.sandbox.command(args);
        command.env("DATABASE_URL", self.url_of(database).replace("postgres@", &format!("{user}@")));
        command
    }
}
