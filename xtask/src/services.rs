//! The servers that the tests need: those that the environment names, and private ones otherwise.

mod amqp;
pub(crate) mod embedded;
mod folder;
pub(crate) mod foreign;
mod npm;
pub(crate) mod pgbouncer;
pub(crate) mod postgres;
mod private;
mod process;
pub(crate) mod programs;
mod rabbitmq;
mod state;
mod url;
pub(crate) mod user;

use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::run::{self, Result};
use pgbouncer::PgBouncer;
use postgres::{Newest, Postgres};
use rabbitmq::RabbitMq;
use state::{Started, State};
use url::Url;

/// The URLs of the servers: Debian's PostgreSQL, RabbitMQ, and a pooler in front of the newest PostgreSQL.
pub(crate) struct Urls {
    database: Url,
    amqp: Url,
    pgbouncer: Url,
    /// The server behind the pooler.
    behind: Url,
}

impl Urls {
    pub(crate) const NAMES: [&str; 4] = ["DATABASE_URL", "AMQP_URL", "PGBOUNCER_URL", "PGBOUNCER_SERVER_URL"];

    pub(crate) fn variables(&self) -> [(&'static str, &str); 4] {
        let [database, amqp, pgbouncer, behind] = Self::NAMES;
        [
            (database, self.database.as_str()),
            (amqp, self.amqp.as_str()),
            (pgbouncer, self.pgbouncer.as_str()),
            (behind, self.behind.as_str()),
        ]
    }

    /// Returns them one to a line, as the shell's `export` takes them.
    pub(crate) fn lines(&self) -> String {
        self.variables().map(|(name, url)| format!("{name}={url}\n")).concat()
    }
}

/// Ensures the programs that tests run themselves: a server to crash, a clock that goes wrong, and readers of metrics and of manual pages.
pub(crate) fn tools() -> Result<()> {
    programs::ensure("postgresql", "initdb", || programs::postgres("initdb"))?;
    programs::ensure("faketime", "faketime", || programs::on_path("faketime"))?;
    programs::ensure("prometheus", "prometheus", || programs::on_path("prometheus"))?;
    programs::ensure("groff-base", "groff", || programs::on_path("groff"))?;
    Ok(())
}

/// Ensures RabbitMQ's programs, for clusters that a test starts itself.
pub(crate) fn broker_programs() -> Result<()> {
    rabbitmq::installed().map(drop)
}

/// One kind of server.
trait Service {
    /// Its name, also that of its folder and of its lines in the state file.
    const NAME: &str;
    /// The variable that names the one to use.
    const VARIABLE: Option<&str>;
    /// The signal that ends it at once and cleanly.
    const STOP: &str;

    /// Installs what `answers` needs.
    fn prepare(&self) -> Result<()> {
        Ok(())
    }
    /// Checks that a client gets an answer there; the error says why not. Changes nothing.
    fn answers(&self, url: &Url) -> Result<()>;
    /// Whether one that was started earlier can still be used.
    fn fits(&self, _started: &Started) -> bool {
        true
    }
    /// Starts a private one and waits until it answers.
    fn start(&self) -> Result<Started>;
    /// Ends the processes that it started in addition to its own.
    fn clear(&self, _started: &Started) {}
}

/// Where a server comes from.
#[derive(Clone, Copy)]
enum Origin {
    Environment,
    Started,
}

impl Origin {
    fn text(self) -> &'static str {
        match self {
            Self::Environment => "named by the environment",
            Self::Started => "started by `cargo xtask services up`",
        }
    }
}

pub(crate) fn up() -> Result<Urls> {
    let (_lock, mut state) = open()?;
    let database = ensure(&Postgres, &mut state)?;
    let amqp = ensure(&RabbitMq, &mut state)?;
    let behind = ensure(&Newest, &mut state)?;
    let pgbouncer = ensure(&PgBouncer { upstream: Some(behind.clone()) }, &mut state)?;
    Ok(Urls { database, amqp, pgbouncer, behind })
}

/// Stops the servers that `up` started, the last one first.
pub(crate) fn down() -> Result<()> {
    let (_lock, mut state) = open()?;
    let any = stop(&PgBouncer { upstream: None }, &mut state)?
        | stop(&Newest, &mut state)?
        | stop(&RabbitMq, &mut state)?
        | stop(&Postgres, &mut state)?;
    if !any {
        eprintln!("nothing to stop: `cargo xtask services up` has started nothing that is left");
    }
    Ok(())
}

pub(crate) fn status() -> Result<()> {
    let (_lock, state) = open()?;
    let newest = found(&Newest, &state);
    let upstream = newest.as_ref().ok().and_then(Option::as_ref).map(|(url, _)| url.clone());
    let answers = [
        tell::<Postgres>(&found(&Postgres, &state), &state),
        tell::<RabbitMq>(&found(&RabbitMq, &state), &state),
        tell::<Newest>(&newest, &state),
        tell::<PgBouncer>(&found(&PgBouncer { upstream }, &state), &state),
    ];
    if answers == [true; 4] { Ok(()) } else { Err("not everything is up".to_owned()) }
}

fn tell<S: Service>(found: &Result<Option<(Url, Origin)>>, state: &State) -> bool {
    let line = match found {
        Ok(Some((url, origin))) => {
            let pid = match (origin, state.get(S::NAME)) {
                (Origin::Started, Some(started)) => format!(", process {}", started.pid),
                _ => String::new(),
            };
            format!("answers  {}  {}{pid}", url.redacted(), origin.text())
        }
        Ok(None) => "none     `cargo xtask services up` would start one".to_owned(),
        Err(why) => format!("fails    {why}"),
    };
    println!("{:<15} {line}", S::NAME);
    matches!(found, Ok(Some(_)))
}

/// Returns the server to use, if one answers already.
fn found<S: Service>(service: &S, state: &State) -> Result<Option<(Url, Origin)>> {
    let started = state.get(S::NAME).filter(|started| service.fits(started));
    if let Some((variable, text)) = S::VARIABLE.and_then(from_environment) {
        let url = Url::parse(&text).map_err(|why| format!("{variable}: {why}"))?;
        service.answers(&url).map_err(|why| {
            format!(
                "{variable} names {}, which does not answer: {why}\n  Start that server, or unset {variable} to let \
                 `cargo xtask services up` start one.",
                url.redacted()
            )
        })?;
        let ours = started.is_some_and(|started| started.url.as_str() == url.as_str());
        return Ok(Some((url, if ours { Origin::Started } else { Origin::Environment })));
    }
    if let Some(started) = started {
        match service.answers(&started.url) {
            Ok(()) => return Ok(Some((started.url.clone(), Origin::Started))),
            Err(why) => eprintln!("{}: the one started earlier does not answer: {why}", S::NAME),
        }
    }
    Ok(None)
}

fn ensure<S: Service>(service: &S, state: &mut State) -> Result<Url> {
    service.prepare()?;
    if let Some((url, origin)) = found(service, state)? {
        eprintln!("{}: {} ({})", S::NAME, url.redacted(), origin.text());
        return Ok(url);
    }
    // Remains of a server that does not answer, or of a pooler in front of another server.
    stop(service, state)?;
    eprintln!("{}: starting a private one", S::NAME);
    let started = service.start()?;
    let url = started.url.clone();
    eprintln!("{}: {} (process {})", S::NAME, url.redacted(), started.pid);
    // Written before the next one is started: whatever happens then, `down` finds this one.
    state.set(S::NAME, Some(started))?;
    Ok(url)
}

/// Stops the server that was started, if any. Returns whether there was one.
fn stop<S: Service>(service: &S, state: &mut State) -> Result<bool> {
    let Some(started) = state.get(S::NAME).cloned() else {
        return Ok(false);
    };
    process::terminate(S::NAME, started.pid, &started.mark, S::STOP)?;
    service.clear(&started);
    // The server has stopped even if its folder can't be removed.
    if let Err(why) = folder::remove(&started.dir) {
        eprintln!("{}: {why}", S::NAME);
    }
    state.set(S::NAME, None)?;
    eprintln!("{}: stopped (process {})", S::NAME, started.pid);
    Ok(true)
}

fn from_environment(variable: &'static str) -> Option<(&'static str, String)> {
    std::env::var(variable).ok().filter(|text| !text.is_empty()).map(|text| (variable, text))
}

/// Returns the folder of the services. It is always in this checkout, even if `CARGO_TARGET_DIR` is set, so that servers that were started are found
/// again.
fn home() -> PathBuf {
    run::workspace().join("target").join("services")
}

/// Opens the state, with a lock that keeps other runs from changing it meanwhile.
fn open() -> Result<(File, State)> {
    const DEADLINE: Duration = Duration::from_secs(300);
    let home = home();
    fs::create_dir_all(&home).map_err(|why| format!("cannot create {}: {why}", home.display()))?;
    let path = home.join("lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|why| format!("cannot open {}: {why}", path.display()))?;
    let end = Instant::now() + DEADLINE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok((file, State::load(&home.join("state"))?)),
            Err(TryLockError::WouldBlock) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(format!(
                    "another `cargo xtask` has held {} for {DEADLINE:?}; see what it does",
                    path.display()
                ));
            }
            Err(TryLockError::Error(why)) => {
                return Err(format!("cannot lock {}: {why}", path.display()));
            }
        }
    }
}

/// Returns a port at which nothing listens, below those that the system gives to connections, where it has any there: one of those may be taken by
/// a connection before the server listens.
fn free_port() -> Result<u16> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let from = range.split_whitespace().next().and_then(|from| from.parse().ok()).unwrap_or(32_768_u16);
    // Each call begins at another one: two that run at the same time would find the same.
    let start = RandomState::new().build_hasher().finish();
    let below = (0..100_u64).filter_map(|n| {
        let ports = u64::from(from.checked_sub(10_000).filter(|ports| *ports >= 1_000)?);
        u16::try_from(10_000 + start.wrapping_add(n) % ports).ok()
    });
    below
        .chain([0])
        .find_map(|port| std::net::TcpListener::bind(("127.0.0.1", port)).ok()?.local_addr().ok())
        .map(|address| address.port())
        .ok_or_else(|| "no free port on 127.0.0.1".to_owned())
}
