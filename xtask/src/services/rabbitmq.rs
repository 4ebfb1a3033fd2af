//! RabbitMQ.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::state::Started;
use super::url::Url;
use super::{Service, amqp, folder, free_port, process, programs};
use crate::run::{self, Result};

/// Tests delete thousands of quorum queues. When the log of all queues was full and its entries were distributed to files of the queues, of which most were gone,
/// RabbitMQ 3.10 lost its supervisor of dead letters, seen twice, and then each new queue with `at-least-once` crashed. A log of 2 GiB lasts for several runs.
const CONFIGURATION: &str = "raft.wal_max_size_bytes = 2147483648\n";

pub(super) struct RabbitMq;

/// On a small, busy machine the first start takes most of a minute.
const START: Duration = Duration::from_secs(120);

impl Service for RabbitMq {
    const NAME: &str = "rabbitmq";
    const VARIABLE: Option<&str> = Some("AMQP_URL");
    const STOP: &str = "TERM";

    fn answers(&self, url: &Url) -> Result<()> {
        amqp::answers(url)
    }

    fn start(&self) -> Result<Started> {
        let server = installed()?;
        let log = super::home().join("rabbitmq.log");
        folder::with_server(Self::NAME, None, |dir| start(&server, dir, &log))
    }

    /// Erlang's port mapper was started with the server, for it alone.
    fn clear(&self, started: &Started) {
        stop_port_mapper(&started.note);
    }
}

/// Returns the program, and installs it where that is allowed.
pub(super) fn installed() -> Result<PathBuf> {
    programs::ensure("rabbitmq-server", "RabbitMQ's rabbitmq-server", find)
}

/// Finds the script behind Debian's rabbitmq-server: the one on PATH changes to its own user and folders.
fn find() -> Option<PathBuf> {
    let script = PathBuf::from("/usr/lib/rabbitmq/bin/rabbitmq-server");
    if script.is_file() { Some(script) } else { programs::on_path("rabbitmq-server") }
}

fn url(port: u16) -> Result<Url> {
    Url::parse(&format!("amqp://guest:guest@127.0.0.1:{port}/%2f"))
}

fn start(server: &Path, dir: &Path, log: &Path) -> Result<Started> {
    let (port, distribution, mapper) = (free_port()?, free_port()?, free_port()?.to_string());
    let pid_file = dir.join("pid");
    let mark = format!("-jobwright_services {port}");
    // The machine's own settings are for its own server.
    let settings = dir.join("rabbitmq-env.conf");
    run::write(&settings, "")?;
    run::write(&dir.join("rabbitmq.conf"), CONFIGURATION)?;
    run::write(&dir.join("enabled_plugins"), "[].\n")?;

    let mut command = Command::new(server);
    command
        .current_dir(dir)
        .env("HOME", dir) // where Erlang keeps the cookie
        .env("RABBITMQ_NODENAME", format!("jobwright-{port}@localhost"))
        .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_NODE_PORT", port.to_string())
        .env("RABBITMQ_DIST_PORT", distribution.to_string())
        .env("RABBITMQ_MNESIA_BASE", dir.join("data"))
        .env("RABBITMQ_LOG_BASE", dir.join("log"))
        .env("RABBITMQ_PID_FILE", &pid_file)
        .env("RABBITMQ_CONF_ENV_FILE", settings)
        .env("RABBITMQ_CONFIG_FILE", dir.join("rabbitmq.conf"))
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", dir.join("enabled_plugins"))
        .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", &mark)
        // A separate port mapper: a shared one could be ended by whichever server started it.
        .env("ERL_EPMD_ADDRESS", "127.0.0.1")
        .env("ERL_EPMD_PORT", &mapper)
        .env("ERL_FLAGS", "-kernel inet_dist_use_interface {127,0,0,1}");
    eprintln!("$ {} (port {port})", server.display());
    // An earlier server's log does not apply to this one.
    let _ = fs::remove_file(log);
    let mut child = run::spawn_logged(&mut command, log)?;

    let url = url(port)?;
    let end = Instant::now() + START;
    let problem = loop {
        let why = match amqp::answers(&url) {
            Ok(()) => match read_pid(&pid_file) {
                Ok(pid) => {
                    return Ok(Started { url, pid, dir: dir.to_owned(), mark, note: mapper });
                }
                Err(why) => why,
            },
            Err(why) => why,
        };
        if let Ok(Some(status)) = child.try_wait() {
            break format!("it ended with {status}");
        }
        if Instant::now() >= end {
            break format!("it does not answer after {START:?}: {why}");
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    if let Ok(pid) = read_pid(&pid_file) {
        process::terminate(RabbitMq::NAME, pid, &mark, RabbitMq::STOP)?;
    }
    process::kill_group(&mut child);
    stop_port_mapper(&mapper);
    Err(format!("RabbitMQ ({}) did not start: {problem}{}", server.display(), run::tail(log)))
}

fn read_pid(path: &Path) -> Result<u32> {
    fs::read_to_string(path)
        .map_err(|why| format!("cannot read {}: {why}", path.display()))?
        .trim()
        .parse()
        .map_err(|why| format!("{} is not a process id: {why}", path.display()))
}

/// Stops the port mapper. It ends only if no node is registered with it, so no other server is affected; one that stays does no harm.
fn stop_port_mapper(port: &str) {
    if let Some(epmd) = programs::on_path("epmd") {
        let mut command = Command::new(epmd);
        let _ = run::capture(command.args(["-port", port, "-kill"]), Duration::from_secs(10));
    }
}
