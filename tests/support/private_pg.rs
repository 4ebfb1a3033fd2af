//! A private PostgreSQL server for one test, which may restart and reconfigure it.

use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::fake_clock::FakedClock;
use super::ports::free_port;
use super::unique;

/// Stops the server and removes its data when it is dropped.
#[derive(Debug)]
pub(crate) struct PrivatePg {
    bin: PathBuf,
    dir: PathBuf,
    port: u16,
    /// The user that runs it; PostgreSQL refuses to run as root.
    user: Option<(u32, u32)>,
    /// The clock that it follows.
    clock: Option<FakedClock>,
}

impl PrivatePg {
    pub(crate) fn start() -> Self {
        Self::start_with(&[], &[])
    }

    /// Starts a server with a clock that the test sets: see [`set_clock`](Self::set_clock).
    pub(crate) fn start_with_clock() -> Self {
        Self::start_by(&[], &[], Some(FakedClock::right()))
    }

    /// Sets the server's clock this many seconds ahead.
    pub(crate) fn set_clock(&self, seconds: i64) {
        self.clock.as_ref().expect("it has this host's clock").set(seconds);
    }

    /// Starts a server with these lines in `postgresql.conf`, and these files beside it.
    pub(crate) fn start_with(settings: &[&str], files: &[(&str, &str)]) -> Self {
        Self::start_by(settings, files, None)
    }

    fn start_by(settings: &[&str], files: &[(&str, &str)], clock: Option<FakedClock>) -> Self {
        let mut server = Self::new();
        server.clock = clock;
        let data = server.data();
        server.run("initdb", &["-D", &data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"]);
        for (name, content) in files {
            server.write(name, content);
        }
        let path = server.dir.join("data/postgresql.conf");
        let conf = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{conf}\n{}\n", settings.join("\n"))).unwrap();
        server.start_again();
        server
    }

    /// Starts a hot standby of another server.
    pub(crate) fn standby_of(primary: &Self) -> Self {
        let server = Self::new();
        let from = format!("host=127.0.0.1 port={} user=postgres", primary.port);
        server.run(
            "pg_basebackup",
            &["-D", &server.data(), "-d", &from, "-R", "-X", "stream", "-c", "fast", "--no-sync"],
        );
        server.start_again();
        server
    }

    fn new() -> Self {
        let bin = programs();
        let dir = std::env::temp_dir().join(unique("jobwright_pg_"));
        std::fs::create_dir(&dir).unwrap();
        let user = user_of_servers();
        if let Some((uid, gid)) = user {
            chown(&dir, Some(uid), Some(gid)).unwrap();
        }
        Self { bin, dir, port: free_port(), user, clock: None }
    }

    /// Starts the server after a stop, or for the first time.
    pub(crate) fn start_again(&self) {
        // A crash of the server loses nothing that the kernel has, so fsync would only cost time.
        let settings = format!(
            "-p {} -k {} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=60",
            self.port,
            self.dir.display()
        );
        self.run("pg_ctl", &["-D", &self.data(), "-w", "-l", &self.path("log"), "-o", &settings, "start"]);
    }

    /// Writes a file into the data directory that only the server may read.
    pub(crate) fn write(&self, name: &str, content: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.dir.join("data").join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        if let Some((uid, gid)) = self.user {
            chown(&path, Some(uid), Some(gid)).unwrap();
        }
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the server's log.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap()
    }

    /// Promotes a standby to primary.
    pub(crate) fn promote(&self) {
        self.run("pg_ctl", &["-D", &self.data(), "-w", "promote"]);
    }

    /// Freezes the server, without closing any connection, until the returned value is dropped.
    pub(crate) fn silenced(&self) -> Silenced<'_> {
        self.signal("STOP");
        Silenced(self)
    }

    /// Sends a signal to all the server's processes.
    fn signal(&self, name: &str) {
        let file = std::fs::read_to_string(self.dir.join("data/postmaster.pid")).unwrap();
        let main = file.lines().next().unwrap().to_owned();
        let signal = |pid: &str| {
            let status = Command::new("kill").arg(format!("-{name}")).arg(pid).status().unwrap();
            assert!(status.success() || pid != main, "kill -{name} {pid}");
        };
        signal(&main);
        let children = Command::new("pgrep").args(["-P", &main]).output().unwrap();
        String::from_utf8(children.stdout).unwrap().lines().for_each(signal);
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Stops the server cleanly: clients are notified.
    pub(crate) fn stop(&self) {
        self.run("pg_ctl", &["-D", &self.data(), "-w", "-m", "fast", "stop"]);
    }

    /// Crashes the server: clients are not notified, and recovery runs at the start.
    pub(crate) fn crash_and_restart(&self) {
        let data = self.data();
        self.run("pg_ctl", &["-D", &data, "-w", "-l", &self.path("log"), "-m", "immediate", "restart"]);
    }

    fn data(&self) -> String {
        self.path("data")
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).to_str().unwrap().to_owned()
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.bin.join(program));
        // That user may have no access to the tests' working directory.
        command.args(arguments).current_dir("/").stdin(Stdio::null());
        if let Some(clock) = &self.clock {
            clock.followed_by(&mut command);
        }
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        // The server inherits these handles, so they must not be pipes that a reader waits on.
        let output = std::fs::File::create(self.dir.join(program)).unwrap();
        let errors = output.try_clone().unwrap();
        let status = self.command(program, arguments).stdout(output).stderr(errors).status().unwrap();
        if !status.success() {
            let said = std::fs::read_to_string(self.dir.join(program)).unwrap_or_default();
            let log = std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
            panic!("{program} failed: {status}\n{said}\n{log}");
        }
    }
}

/// Lets the server continue when it is dropped.
#[derive(Debug)]
pub(crate) struct Silenced<'a>(&'a PrivatePg);

impl Drop for Silenced<'_> {
    fn drop(&mut self) {
        self.0.signal("CONT");
    }
}

impl Drop for PrivatePg {
    fn drop(&mut self) {
        let data = self.data();
        let _ = self
            .command("pg_ctl", &["-D", &data, "-w", "-m", "immediate", "stop"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Returns the programs of the version under test, or of the newest PostgreSQL that is installed.
pub(crate) fn programs() -> PathBuf {
    if let Some(named) = std::env::var_os("JOBWRIGHT_TEST_POSTGRES_BIN") {
        return named.into();
    }
    let version = |bin: &Path| bin.parent()?.file_name()?.to_str()?.parse::<u32>().ok();
    let mut found: Vec<_> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|bin| bin.join("initdb").exists() && bin.join("pg_ctl").exists())
        .collect();
    found.sort_by_key(|bin| version(bin));
    found
        .pop()
        .expect("this test needs `initdb` and `pg_ctl` in /usr/lib/postgresql/*/bin: install the package `postgresql`")
}

/// Returns the user to run servers as, because they refuse to run as root.
pub(crate) fn user_of_servers() -> Option<(u32, u32)> {
    (std::fs::metadata("/proc/self").unwrap().uid() == 0).then(|| (id("-u"), id("-g")))
}

fn id(which: &str) -> u32 {
    let output = Command::new("id").args([which, "postgres"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().parse().expect("as root this test needs a user `postgres`: install the package `postgresql`")
}
