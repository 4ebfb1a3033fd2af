//! Worker processes that tests kill: the test binary, started again to run one test that is otherwise ignored.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::unique;

/// The variable that makes a process a worker and describes its task as JSON.
const ROLE: &str = "JOBWRIGHT_TEST_ROLE";

/// A worker process. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
}

impl Worker {
    /// Starts this binary's test of this path, which begins with the crate as `module_path!()` does, with a role.
    pub(crate) fn start(test: &str, role: &serde_json::Value) -> Self {
        Self::start_with(test, role, |_| {})
    }

    /// Starts it with a changed environment.
    pub(crate) fn start_with(test: &str, role: &serde_json::Value, change: impl FnOnce(&mut Command)) -> Self {
        let (_, test) = test.split_once("::").expect("the path of a test");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .env(ROLE, role.to_string())
            // Closed by the end of this process, however it ends: then the worker ends too.
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        change(&mut command);
        Self { child: command.spawn().unwrap() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, named as `kill` names it. The standard library has only SIGKILL.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status().unwrap();
        assert!(status.success(), "kill -{name}");
    }

    /// Kills the worker with `kill -9`: nothing of it runs any more when this returns.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until the process ends without being killed.
    pub(crate) fn ended(&mut self, patience: Duration) -> std::process::ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < patience, "the worker process is still running after {patience:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the role of this process, if it is a worker. The process then ends when its parent does.
pub(crate) fn role() -> Option<serde_json::Value> {
    let role = std::env::var(ROLE).ok()?;
    std::thread::spawn(|| {
        let mut nothing = String::new();
        let _ = std::io::stdin().read_line(&mut nothing);
        std::process::exit(0);
    });
    Some(serde_json::from_str(&role).unwrap())
}

/// A signal between processes: it is given when its file exists. A process that is stopped meanwhile still finds it afterwards.
#[derive(Debug)]
pub(crate) struct Sign {
    path: PathBuf,
    /// Whether this is the test's end, which removes the file.
    owned: bool,
}

impl Sign {
    pub(crate) fn new() -> Self {
        Self { path: std::env::temp_dir().join(unique("jobwright_sign_")), owned: true }
    }

    /// Returns the path for the other process.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn give(&self, text: &str) {
        // Atomically: the reader may check at any time.
        let part = self.path.with_extension("part");
        std::fs::write(&part, text).unwrap();
        std::fs::rename(&part, &self.path).unwrap();
    }

    pub(crate) fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), owned: false }
    }

    pub(crate) fn text(&self) -> Option<String> {
        std::fs::read_to_string(&self.path).ok()
    }

    pub(crate) async fn given(&self) {
        while self.text().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Sign {
    fn drop(&mut self) {
        if self.owned {
            let _ = std::fs::remove_file(&self.path);
            // Left by a process that was killed while it gave the sign.
            let _ = std::fs::remove_file(self.path.with_extension("part"));
        }
    }
}
