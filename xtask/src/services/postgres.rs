//! PostgreSQL.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

pub(crate) use super::private::Private;
use super::state::Started;
use super::url::Url;
use super::user::User;
use super::{Service, embedded, folder, free_port, programs};
use crate::run::{self, Result};

pub(super) struct Postgres;

impl Service for Postgres {
    const NAME: &str = "postgres";
    const VARIABLE: Option<&str> = Some("DATABASE_URL");
    /// "Fast": connections are closed. SIGTERM would wait for them.
    const STOP: &str = "INT";

    fn prepare(&self) -> Result<()> {
        let find = || programs::postgres("psql");
        programs::ensure("postgresql-client", "psql, which asks the server,", find).map(drop)
    }

    fn answers(&self, url: &Url) -> Result<()> {
        answers(url)
    }

    fn start(&self) -> Result<Started> {
        start_in(Self::NAME, "")
    }
}

/// The newest version, behind the pooler.
pub(super) struct Newest;

impl Service for Newest {
    const NAME: &str = "postgres-newest";
    const VARIABLE: Option<&str> = Some("PGBOUNCER_SERVER_URL");
    const STOP: &str = Postgres::STOP;

    fn answers(&self, url: &Url) -> Result<()> {
        answers(url)
    }

    fn start(&self) -> Result<Started> {
        let (version, package) = embedded::newest();
        let user = User::for_servers()?;
        folder::with_server(Self::NAME, user, |dir| {
            let programs = embedded::programs_for(version, package, dir)?;
            start(&programs.join("initdb"), &programs.join("pg_ctl"), user, dir, "")
        })
        .map_err(|why| {
            format!(
                "{why}\n  PGBOUNCER_SERVER_URL can name another server for the tests through a pooler, such as that of \
                 DATABASE_URL."
            )
        })
    }
}

/// Starts a server for one command, with these lines at the end of its settings.
pub(crate) fn private(name: &str, settings: &str) -> Result<Private> {
    Postgres.prepare()?;
    Private::of::<Postgres>(start_in(name, settings))
}

/// Starts a server for one command, with the server's programs in this folder.
pub(crate) fn private_from(name: &str, programs: &Path) -> Result<Private> {
    Postgres.prepare()?;
    let user = User::for_servers()?;
    let started =
        folder::with_server(name, user, |dir| start(&programs.join("initdb"), &programs.join("pg_ctl"), user, dir, ""));
    Private::of::<Postgres>(started)
}

/// Starts Debian's version, in a folder of this name.
fn start_in(name: &str, settings: &str) -> Result<Started> {
    let initdb = programs::ensure("postgresql", "PostgreSQL's initdb", || programs::postgres("initdb"))?;
    let pg_ctl = programs::ensure("postgresql", "PostgreSQL's pg_ctl", || programs::postgres("pg_ctl"))?;
    let user = User::for_servers()?;
    folder::with_server(name, user, |dir| start(&initdb, &pg_ctl, user, dir, settings))
}

impl Private {
    /// Returns the URL of a database for a role.
    pub(crate) fn url_of(&self, role: &str, database: &str) -> Result<String> {
        let port = self.started.url.port.ok_or("the server's URL has no port")?;
        Ok(format!("postgres://{role}@127.0.0.1:{port}/{database}"))
    }

    /// Runs a statement in a database, as the administrator.
    pub(crate) fn execute(&self, database: &str, statement: &str) -> Result<()> {
        ask(&Url::parse(&self.url_of("postgres", database)?)?, statement).map(drop)
    }

    /// Returns the value of `show NAME`.
    pub(crate) fn setting(&self, name: &str) -> Result<String> {
        ask(&self.started.url, &format!("show {name}"))
    }
}

fn start(initdb: &Path, pg_ctl: &Path, user: Option<User>, dir: &Path, more: &str) -> Result<Started> {
    let data = dir.join("data");
    let log = super::home().join("postgres.log");
    let mut command = User::command(user, initdb);
    // Only this machine can reach it, and every user on it may: it holds only test data.
    command.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
    run::logged(command.arg("--pgdata").arg(&data), &log, Duration::from_secs(120))?;

    let port = free_port()?;
    // No socket: a path that is too long for one would be one more reason not to start. Many tests run side by side, each with its own pools.
    let settings = format!(
        "\n# Set by `cargo xtask services up`.\nlisten_addresses = '127.0.0.1'\nport = {port}\n\
         unix_socket_directories = ''\nfsync = on\nmax_connections = 400\n{more}"
    );
    append(&data.join("postgresql.conf"), &settings)?;

    let mut command = User::command(user, pg_ctl);
    command.arg("start").arg("--pgdata").arg(&data).arg("--log").arg(dir.join("server.log"));
    run::logged(command.args(["--wait", "--timeout=60"]), &log, Duration::from_secs(90))
        .map_err(|why| format!("{why}{}", run::tail(&dir.join("server.log"))))?;

    let file = data.join("postmaster.pid");
    let text = std::fs::read_to_string(&file).map_err(|why| format!("cannot read {}: {why}", file.display()))?;
    let pid = text
        .lines()
        .next()
        .unwrap_or_default()
        .trim()
        .parse()
        .map_err(|why| format!("{} does not begin with a process id: {why}", file.display()))?;
    let url = Url::parse(&format!("postgres://postgres@127.0.0.1:{port}/postgres"))?;
    answers(&url)?;
    Ok(Started { url, pid, dir: dir.to_owned(), mark: data.display().to_string(), note: String::new() })
}

fn append(path: &Path, text: &str) -> Result<()> {
    use std::io::Write as _;
    std::fs::OpenOptions::new()
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|why| format!("cannot write {}: {why}", path.display()))
}

/// Logs in and runs a statement: a server that is starting, that is full or that requires another password does not answer.
pub(super) fn answers(url: &Url) -> Result<()> {
    ask(url, "select 1").map(drop)
}

fn ask(url: &Url, statement: &str) -> Result<String> {
    let psql = programs::postgres("psql").ok_or("psql, which asks the server, is not installed")?;
    let mut command = Command::new(psql);
    command.args(["--no-psqlrc", "--no-password", "--quiet", "--tuples-only", "--no-align"]);
    command.args(["--command", statement, "--dbname"]).arg(url.without_password());
    command.env("PGCONNECT_TIMEOUT", "5");
    if let Some(password) = url.password.clone().or_else(|| url.parameter("password")) {
        command.env("PGPASSWORD", password);
    }
    run::capture(&mut command, Duration::from_secs(15))
}
