//! A private RabbitMQ server for one test, to be stopped, killed, alarmed and wiped.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::ports::free_port;
use super::unique;

/// On a small, busy machine a start takes most of a minute.
const START: Duration = Duration::from_secs(120);

/// Kills the server and its port mapper, and removes its data, when it is dropped.
#[derive(Debug)]
pub(crate) struct PrivateRabbit {
    dir: PathBuf,
    port: u16,
    distribution: u16,
    mapper: u16,
    child: Option<Child>,
}

impl PrivateRabbit {
    /// Reserves a folder and ports; nothing runs yet.
    pub(crate) fn new() -> Self {
        let dir = std::env::temp_dir().join(unique("jobwright_mq_"));
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("rabbitmq-env.conf"), "").unwrap();
        std::fs::write(dir.join("rabbitmq.conf"), "").unwrap();
        std::fs::write(dir.join("enabled_plugins"), "[].\n").unwrap();
        Self { dir, port: free_port(), distribution: free_port(), mapper: free_port(), child: None }
    }

    pub(crate) fn start() -> Self {
        let mut server = Self::new();
        server.run();
        server
    }

    /// Starts a server with these settings and plugins.
    pub(crate) fn start_with(settings: &str, plugins: &str) -> Self {
        let mut server = Self::new();
        std::fs::write(server.dir.join("rabbitmq.conf"), settings).unwrap();
        std::fs::write(server.dir.join("enabled_plugins"), plugins).unwrap();
        server.run();
        server
    }

    /// Starts the server and waits until it takes connections.
    pub(crate) fn run(&mut self) {
        let log = std::fs::File::create(self.dir.join("console")).unwrap();
        let mut command = self.command("rabbitmq-server");
        command.stdout(log.try_clone().unwrap()).stderr(log).process_group(0);
        self.child = Some(command.spawn().unwrap());
        let end = Instant::now() + START;
        while !self.ready() {
            if Instant::now() > end || self.child.as_mut().unwrap().try_wait().unwrap().is_some() {
                let said = std::fs::read_to_string(self.dir.join("console")).unwrap_or_default();
                panic!("RabbitMQ did not start:\n{said}");
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn ready(&self) -> bool {
        std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok()
            && self.ctl_with(&["await_startup", "--timeout", "5"]).is_ok()
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn url(&self) -> String {
        format!("amqp://guest:guest@{}/%2f", self.address())
    }

    /// Returns the URL of another user in another vhost.
    pub(crate) fn url_as(&self, user: &str, password: &str, vhost: &str) -> String {
        format!("amqp://{user}:{password}@{}/{vhost}", self.address())
    }

    /// Runs `rabbitmqctl` and returns its output.
    pub(crate) fn ctl(&self, arguments: &[&str]) -> String {
        self.ctl_with(arguments).unwrap_or_else(|said| panic!("rabbitmqctl {arguments:?}: {said}"))
    }

    fn ctl_with(&self, arguments: &[&str]) -> Result<String, String> {
        let output = self.command("rabbitmqctl").arg("-q").args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            Ok(said)
        } else {
            Err(format!("{}{said}{}", output.status, String::from_utf8_lossy(&output.stderr)))
        }
    }

    /// Stops the broker but not the machine: connections are closed with a reason.
    pub(crate) fn stop_app(&self) {
        self.ctl(&["stop_app"]);
    }

    pub(crate) fn start_app(&self) {
        self.ctl(&["start_app"]);
    }

    /// Removes all queues, users and messages.
    pub(crate) fn wipe(&self) {
        self.ctl(&["stop_app"]);
        self.ctl(&["reset"]);
        self.ctl(&["start_app"]);
    }

    /// Kills the server without closing connections, once it has saved the names of its queues: it does that when they have not been
    /// accessed for half a second, and one that was not saved comes back without its messages, and with no leader for ever.
    pub(crate) fn kill(&mut self) {
        self.ctl(&["eval", "dets:sync(ra_directory_reverse)."]);
        self.end();
    }

    /// Kills the server as it is just before it has saved the name of this queue.
    pub(crate) fn kill_before_it_saves(&mut self, queue: &str) {
        let delete = format!("dets:delete(ra_directory_reverse, '%2F_{queue}'), dets:sync(ra_directory_reverse).");
        self.ctl(&["eval", &delete]);
        self.end();
    }

    fn end(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // The script and the Erlang VM under it are one process group, created for them.
        let _ = Command::new("sh")
            .args(["-c", "kill -s KILL -- \"$1\"", "kill", &format!("-{}", child.id())])
            .stderr(Stdio::null())
            .status();
        let _ = child.wait();
    }

    /// Raises the memory alarm: publishers are blocked.
    pub(crate) fn alarm(&self) {
        self.ctl(&["set_vm_memory_high_watermark", "absolute", "1"]);
    }

    pub(crate) fn calm(&self) {
        self.ctl(&["set_vm_memory_high_watermark", "0.6"]);
    }

    pub(crate) fn add_vhost(&self, vhost: &str) {
        self.ctl(&["add_vhost", vhost]);
    }

    /// Adds a user; `rights` are patterns for configure, write and read.
    pub(crate) fn add_user(&self, user: &str, password: &str, vhost: &str, rights: Option<[&str; 3]>) {
        self.ctl(&["add_user", user, password]);
        if let Some([configure, write, read]) = rights {
            self.ctl(&["set_permissions", "-p", vhost, user, configure, write, read]);
        }
    }

    /// Returns the names that clients gave their connections.
    pub(crate) fn connections(&self) -> Vec<String> {
        let said = self.ctl(&["list_connections", "--no-table-headers", "client_properties"]);
        said.lines().filter(|line| line.contains("jobwright ")).map(str::to_owned).collect()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(find(program));
        command
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .env("HOME", &self.dir) // where Erlang keeps the cookie
            .env("RABBITMQ_NODENAME", format!("test-{}@localhost", self.port))
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", self.port.to_string())
            .env("RABBITMQ_DIST_PORT", self.distribution.to_string())
            .env("RABBITMQ_MNESIA_BASE", self.dir.join("data"))
            .env("RABBITMQ_LOG_BASE", self.dir.join("log"))
            .env("RABBITMQ_PID_FILE", self.dir.join("pid"))
            .env("RABBITMQ_CONF_ENV_FILE", self.dir.join("rabbitmq-env.conf"))
            .env("RABBITMQ_CONFIG_FILE", self.dir.join("rabbitmq.conf"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", self.dir.join("enabled_plugins"))
            // A separate port mapper, so that it ends with this server.
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("ERL_EPMD_PORT", self.mapper.to_string())
            // Its schedulers do not spin while they wait for work: other tests run beside it.
            .env("ERL_FLAGS", "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none");
        command
    }
}

impl Drop for PrivateRabbit {
    fn drop(&mut self) {
        self.end();
        // The port mapper forgets a dead node soon, and ends only when it knows none.
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            let asked = Command::new("epmd")
                .args(["-port", &self.mapper.to_string(), "-kill"])
                .env("ERL_EPMD_ADDRESS", "127.0.0.1")
                .output();
            match asked {
                Ok(output) if String::from_utf8_lossy(&output.stdout).contains("not allowed") => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                _ => break,
            }
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Debian's programs on PATH change to their own user and folders; the scripts behind them do not.
fn find(program: &str) -> PathBuf {
    let script = PathBuf::from("/usr/lib/rabbitmq/bin").join(program);
    if script.is_file() { script } else { PathBuf::from(program) }
}
