//! A PostgreSQL server for one run of the benchmark, which may restart it.

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Result;

/// How long one of the server's programs may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Stopped, and its data removed, when it is dropped.
#[derive(Debug)]
pub(crate) struct PrivateServer {
    programs: PathBuf,
    dir: PathBuf,
    port: u16,
    /// The user who runs it: PostgreSQL refuses to run as root.
    user: Option<(u32, u32)>,
}

impl PrivateServer {
    /// Starts a server that accepts this many connections. It writes a line for each connection, so that they can be counted, and has no autovacuum, whose
    /// transactions would count as those of the nodes.
    pub(crate) async fn start(connections: usize) -> Result<Self> {
        let programs = installed()?;
        let user = user()?;
        let dir = std::env::temp_dir().join(format!("jobwright_bench_pg_{}", std::process::id()));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&dir)
            .map_err(|e| format!("the folder of the private server, {}, can't be made: {e}", dir.display()))?;
        let server = Self { programs, dir, port: free_port()?, user };
        if let Some((uid, gid)) = user {
            chown(&server.dir, Some(uid), Some(gid))?;
        }
        let data = server.path("data");
        // Only this machine can reach it, and it holds no data of anybody.
        server.run("initdb", &["-D", &data, "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C"]).await?;
        let settings = format!(
            "\nlisten_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = ''\nmax_connections = {connections}\n\
             autovacuum = off\nlog_connections = on\nlog_line_prefix = '%n '\n",
            server.port
        );
        append(&server.dir.join("data/postgresql.conf"), &settings)?;
        server.run("pg_ctl", &["-D", &data, "-w", "-t", "60", "-l", &server.path("log"), "start"]).await?;
        Ok(server)
    }

    /// Returns the URL of its first database.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Restarts it ("fast": connections are closed), and returns when it accepts connections again.
    pub(crate) async fn restart(&self) -> Result<()> {
        let (data, log) = (self.path("data"), self.path("log"));
        self.run("pg_ctl", &["-D", &data, "-w", "-t", "60", "-m", "fast", "-l", &log, "restart"]).await
    }

    /// Returns what it has logged.
    pub(crate) fn log(&self) -> Result<String> {
        let file = self.dir.join("log");
        let log =
            std::fs::read(&file).map_err(|e| format!("the server's log {} can't be read: {e}", file.display()))?;
        Ok(String::from_utf8_lossy(&log).into_owned())
    }

    fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.programs.join(program));
        // The server's user may have no access to the present folder.
        command.args(arguments).current_dir("/").stdin(Stdio::null());
        if let Some((uid, gid)) = self.user {
            use std::os::unix::process::CommandExt as _;
            command.uid(uid).gid(gid);
        }
        command
    }

    async fn run(&self, program: &str, arguments: &[&str]) -> Result<()> {
        // The server inherits these handles: a pipe would stay open as long as it runs.
        let said = self.dir.join(program);
        let output = std::fs::File::create(&said)?;
        let errors = output.try_clone()?;
        let mut command = tokio::process::Command::from(self.command(program, arguments));
        let mut child = command
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(|e| format!("{} can't be started: {e}", self.programs.join(program).display()))?;
        let status = tokio::time::timeout(PATIENCE, child.wait())
            .await
            .map_err(|_| format!("{program} of the private server did not end within {} s", PATIENCE.as_secs()))??;
        if status.success() {
            return Ok(());
        }
        let said = std::fs::read_to_string(&said).unwrap_or_default();
        let log = self.log().unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(5).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        Err(format!("{program} of the private server failed ({status}):\n{said}\n{}", last.join("\n")).into())
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        let data = self.path("data");
        let stop = ["-D", &data, "-w", "-t", "30", "-m", "immediate", "stop"];
        let _ = self.command("pg_ctl", &stop).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if let Err(error) = std::fs::remove_dir_all(&self.dir) {
            eprintln!("the folder of the private server, {}, can't be removed: {error}", self.dir.display());
        }
    }
}

/// Returns the folder with the server's programs: that of the newest version, or one in the search path.
fn installed() -> Result<PathBuf> {
    let version = |bin: &Path| bin.parent()?.file_name()?.to_str()?.parse::<u32>().ok();
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = debian.map(|entry| entry.path().join("bin")).collect();
    found.sort_by_key(|bin| std::cmp::Reverse(version(bin)));
    found.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    found.into_iter().find(|bin| bin.join("initdb").exists() && bin.join("pg_ctl").exists()).ok_or_else(|| {
        "PostgreSQL's `initdb` and `pg_ctl` are neither in /usr/lib/postgresql/*/bin nor in the PATH: install the package \
         `postgresql`, or name a server by DATABASE_URL"
            .into()
    })
}

/// Returns who runs the server: `None` for the present user.
fn user() -> Result<Option<(u32, u32)>> {
    if std::fs::metadata("/proc/self").map_or(1, |own| own.uid()) != 0 {
        return Ok(None);
    }
    let id = |which: &str| {
        let output = Command::new("id").args([which, "postgres"]).output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    match id("-u").zip(id("-g")) {
        Some(user) => Ok(Some(user)),
        None => Err(
            "PostgreSQL refuses to run as root, and there is no user `postgres`: run this as another user, or name a \
                     server by DATABASE_URL"
                .into(),
        ),
    }
}

fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn append(file: &Path, text: &str) -> Result<()> {
    use std::io::Write as _;
    Ok(std::fs::OpenOptions::new().append(true).open(file)?.write_all(text.as_bytes())?)
}
