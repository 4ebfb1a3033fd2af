//! A PostgreSQL server of a test's own, to be restarted and reconfigured.

use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::unique;

/// Dropped, it stops the server and removes its data.
#[derive(Debug)]
pub(crate) struct PrivatePg {
    bin: PathBuf,
    dir: PathBuf,
    port: u16,
    /// Who runs it; PostgreSQL refuses to run as root.
    user: Option<(u32, u32)>,
}

impl PrivatePg {
    pub(crate) fn start() -> Self {
        let bin = programs();
        let dir = std::env::temp_dir().join(unique("jobwright_pg_"));
        std::fs::create_dir(&dir).unwrap();
        let user = (std::fs::metadata("/proc/self").unwrap().uid() == 0).then(|| (id("-u"), id("-g")));
        if let Some((uid, gid)) = user {
            chown(&dir, Some(uid), Some(gid)).unwrap();
        }
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Self { bin, dir, port, user };
        let data = server.data();
        server.run("initdb", &["-D", &data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"]);
        // A crash of the server loses nothing that the kernel has, so fsync would only cost time.
        let settings = format!(
            "-p {port} -k {} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=60",
            server.dir.display()
        );
        server.run("pg_ctl", &["-D", &data, "-w", "-l", &server.path("log"), "-o", &settings, "start"]);
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// As a crash does it: no goodbye to anybody, and recovery at the start.
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
        // That user may not be allowed to be where the tests run.
        command.args(arguments).current_dir("/").stdin(Stdio::null());
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        // The server inherits what it gets here, so it must be nothing that somebody waits for.
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

/// The newest PostgreSQL that is installed.
fn programs() -> PathBuf {
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

fn id(which: &str) -> u32 {
    let output = Command::new("id").args([which, "postgres"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().parse().expect("as root this test needs a user `postgres`: install the package `postgresql`")
}
