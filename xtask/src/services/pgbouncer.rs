//! PgBouncer in transaction pooling mode, in front of the newest PostgreSQL.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::private::Private;
use super::state::Started;
use super::url::Url;
use super::user::User;
use super::{Service, folder, free_port, postgres, programs};
use crate::run::{self, Result};

/// Always a private one: the tests that use a pooler depend on its settings.
pub(super) struct PgBouncer {
    /// `None` where one is only looked for or stopped.
    pub(super) upstream: Option<Url>,
}

impl Service for PgBouncer {
    const NAME: &str = "pgbouncer";
    const VARIABLE: Option<&str> = None;
    const STOP: &str = "TERM";

    fn answers(&self, url: &Url) -> Result<()> {
        postgres::answers(url)
    }

    /// It stands in front of one server; that must be the one in use.
    fn fits(&self, started: &Started) -> bool {
        self.upstream.as_ref().is_none_or(|upstream| upstream.redacted() == started.note)
    }

    fn start(&self) -> Result<Started> {
        let upstream = self.upstream.as_ref().ok_or("PgBouncer needs a PostgreSQL to stand before")?;
        start_in(Self::NAME, upstream, TRANSACTION)
    }
}

/// The pooling mode of the shared service.
const TRANSACTION: &str = "transaction";

/// Starts a pooler for one command in front of `upstream`, with this `pool_mode`.
pub(crate) fn private(upstream: &str, mode: &str) -> Result<Private> {
    Private::of::<PgBouncer>(start_in("private-pgbouncer", &Url::parse(upstream)?, mode))
}

fn start_in(name: &str, upstream: &Url, mode: &str) -> Result<Started> {
    let program = programs::ensure("pgbouncer", "PgBouncer's pgbouncer", || programs::on_path("pgbouncer"))?;
    let user = User::for_servers()?;
    folder::with_server(name, user, |dir| start(&program, upstream, mode, user, dir))
}

fn start(program: &Path, upstream: &Url, mode: &str, user: Option<User>, dir: &Path) -> Result<Started> {
    let port = free_port()?;
    let file = dir.join("pgbouncer.ini");
    // The folder is closed to others, and so are its files: this one may hold a password.
    run::write(&file, &settings(upstream, mode, port, dir))?;
    folder::give(&file, user)?;

    let mut command = User::command(user, program);
    let said = super::home().join("pgbouncer.log");
    let log = dir.join("log");
    run::logged(command.args(["-d", "-q"]).arg(&file), &said, Duration::from_secs(20))
        .map_err(|why| format!("{why}{}", run::tail(&log)))?;

    let url = upstream.at("127.0.0.1", port)?;
    let end = Instant::now() + Duration::from_secs(20);
    while let Err(why) = postgres::answers(&url) {
        if Instant::now() >= end {
            return Err(format!("PgBouncer does not answer: {why}{}", run::tail(&log)));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let pid_file = dir.join("pid");
    let pid = fs::read_to_string(&pid_file)
        .map_err(|why| format!("cannot read {}: {why}", pid_file.display()))?
        .trim()
        .parse()
        .map_err(|why| format!("{} is not a process id: {why}", pid_file.display()))?;
    Ok(Started { url, pid, dir: dir.to_owned(), mark: file.display().to_string(), note: upstream.redacted() })
}

/// Every client, for any database, connects as the upstream's user: the pooler is reachable from this machine only, and the tests are about pooling,
/// not passwords.
fn settings(upstream: &Url, mode: &str, port: u16, dir: &Path) -> String {
    let value = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let host = upstream.parameter("host").unwrap_or_else(|| upstream.host.clone());
    let mut database = format!("* = host={}", value(if host.is_empty() { "127.0.0.1" } else { &host }));
    // Writing to a String does not fail.
    let _ = write!(database, " port={}", upstream.port.unwrap_or(5432));
    let name = upstream.user.clone().or_else(|| upstream.parameter("user"));
    let _ = write!(database, " user={}", value(name.as_deref().unwrap_or("postgres")));
    if let Some(password) = upstream.password.clone().or_else(|| upstream.parameter("password")) {
        let _ = write!(database, " password={}", value(&password));
    }
    let tls = upstream.parameter("sslmode").unwrap_or_else(|| "prefer".to_owned());
    let dir = dir.display();
    format!(
        "[databases]\n{database}\n\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
         auth_type = any\npool_mode = {mode}\nmax_client_conn = 1000\ndefault_pool_size = 100\n\
         ignore_startup_parameters = extra_float_digits\nserver_tls_sslmode = {tls}\n\
         logfile = {dir}/log\npidfile = {dir}/pid\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_name_the_server_behind() {
        let upstream = Url::parse("postgres://jo:it%27s@db:5433/shop?sslmode=require").unwrap();
        let text = settings(&upstream, TRANSACTION, 6432, Path::new("/tmp/x"));
        assert!(text.contains("* = host='db' port=5433 user='jo' password='it''s'\n"), "{text}");
        assert!(text.contains("server_tls_sslmode = require\n"));
        assert!(text.contains("pool_mode = transaction\n"));
    }
}
