//! A folder in which servers run, and a watchdog that cleans up after them, whatever becomes of the test.

use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::unique;

/// Waits for the end of its standard input, which comes with the end of the test, however that ends. Then it kills everything that runs in the
/// folder, frees the shared memory of a killed PostgreSQL, and removes the folder.
const WATCHDOG: &str = r#"
trap '' INT TERM HUP
cat > /dev/null
inside() { find /proc -mindepth 2 -maxdepth 2 -name cwd \( -lname "$1" -o -lname "$1/*" \) 2>/dev/null; }
tries=0
while [ $tries -lt 50 ]; do
    found=$(inside "$1")
    [ -n "$found" ] || break
    for place in $found; do pid=${place#/proc/}; kill -KILL "${pid%/cwd}" 2>/dev/null; done
    tries=$((tries + 1))
    sleep 0.1
done
for file in "$1"/*/postmaster.pid; do
    [ -r "$file" ] && ipcrm -m "$(sed -n '7s/.* //p' "$file")" 2>/dev/null
done
rm -rf "$1"
"#;

/// Stops everything that runs in its folder and removes it, when it is dropped.
#[derive(Debug)]
pub(crate) struct Rig {
    dir: PathBuf,
    /// The user that runs the servers; PostgreSQL refuses to run as root.
    user: Option<(u32, u32)>,
    watchdog: Child,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let dir = std::env::temp_dir().join(unique("jwha_"));
        std::fs::create_dir(&dir).unwrap();
        let user = (std::fs::metadata("/proc/self").unwrap().uid() == 0).then(|| (id("-u"), id("-g")));
        let watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog"])
            .arg(&dir)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Out of reach of the terminal's Ctrl-C, which ends the test.
            .process_group(0)
            .spawn()
            .unwrap();
        let rig = Self { dir, user, watchdog };
        rig.give(&rig.dir);
        rig
    }

    pub(crate) fn home(&self) -> &str {
        self.dir.to_str().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Returns a path as text, which all these paths are.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Creates a file that belongs to the user that runs the servers.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        self.give(&path);
        path
    }

    fn give(&self, path: &Path) {
        if let Some((uid, gid)) = self.user {
            chown(path, Some(uid), Some(gid)).unwrap();
        }
    }

    /// Returns a command that runs in the folder, as the user that runs the servers.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.dir).stdin(Stdio::null());
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid).env("HOME", &self.dir);
        }
        command
    }

    /// Runs it to its end, and fails the test if it fails or exceeds its deadline.
    #[track_caller]
    pub(crate) fn run(&self, command: &mut Command, deadline: Duration) -> String {
        self.try_run(command, deadline).unwrap_or_else(|said| panic!("{said}"))
    }

    /// The same for a command that may fail.
    pub(crate) fn try_run(&self, command: &mut Command, deadline: Duration) -> Result<String, String> {
        // Not a pipe: a server inherits this handle, and would keep it open.
        let log = self.path(&unique("said_"));
        let output = std::fs::File::create(&log).unwrap();
        let mut child = command
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .map_err(|why| format!("cannot run {}: {why}", command.get_program().to_string_lossy()))?;
        let end = Instant::now() + deadline;
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break Some(status),
                None if Instant::now() > end => {
                    let _ = child.kill();
                    let _ = child.wait();
                    break None;
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        let _ = std::fs::remove_file(&log);
        match status {
            Some(status) if status.success() => Ok(said),
            Some(status) => Err(format!("{command:?}: {status}\n{said}")),
            None => Err(format!("{command:?} had not ended after {deadline:?}\n{said}")),
        }
    }

    /// Starts a server whose output goes to a file.
    pub(crate) fn spawn(&self, command: &mut Command, log: &str) -> Child {
        let output = std::fs::File::options().create(true).append(true).open(self.path(log)).unwrap();
        command.stdout(output.try_clone().unwrap()).stderr(output).process_group(0).spawn().unwrap()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        drop(self.watchdog.stdin.take());
        let end = Instant::now() + Duration::from_secs(30);
        while matches!(self.watchdog.try_wait(), Ok(None)) {
            if Instant::now() > end {
                eprintln!("{} is still being removed", self.dir.display());
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns the processes whose working directory is `folder` or below it: those of one server.
pub(crate) fn processes_in(folder: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(folder)))
        .collect()
}

/// Sends a signal, named as `kill` names it, to all of them at once. A process that has just ended is no error.
pub(crate) fn signal(name: &str, pids: &[u32]) {
    if !pids.is_empty() {
        let _ = Command::new("kill")
            .arg(format!("-{name}"))
            .args(pids.iter().map(u32::to_string))
            .stderr(Stdio::null())
            .status()
            .unwrap();
    }
}

fn id(which: &str) -> u32 {
    let output = Command::new("id").args([which, "postgres"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().parse().expect("as root this needs a user `postgres`: install the package `postgresql`")
}
