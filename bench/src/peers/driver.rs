//! The program that drives a peer, and its protocol of lines:
//!
//! * `setup` creates the tables, as its argument says;
//! * `bulk N`, `one N` and `latency N` print READY when they are connected, start at GO and print DONE; before that `latency` prints `LATENCY a b`
//!   for each job: the milliseconds to its start after and before the call that enqueued it;
//! * `work STEP` prints READY, works from GO until its input ends, and prints RAN each time STEP more handlers have run.
//!
//! `BENCH_GROUPS` is the number of groups that the jobs belong to in turn; `BENCH_WAY` selects one of its methods.

use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;

use super::sources::Launch;
use crate::Result;
use crate::cases::PATIENCE;
use crate::load::payload;
use crate::server::process_cpu;

pub(super) struct Driver {
    child: Child,
    stdin: ChildStdin,
    lines: mpsc::UnboundedReceiver<String>,
    what: String,
    log: std::path::PathBuf,
}

impl Driver {
    /// Started and connected.
    pub(super) async fn start(launch: &Launch, url: &str, mode: &str, count: usize) -> Result<Self> {
        let mut child = command(launch, url, mode)?
            .arg(count.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{} can't be started: {e}", launch.program.display()))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else { return Err("no pipe to the peer".into()) };
        let (sender, lines) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut read = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = read.next_line().await {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut driver = Self { child, stdin, lines, what: mode.to_owned(), log: launch.log.clone() };
        driver.until("READY", Duration::from_secs(60)).await?;
        Ok(driver)
    }

    pub(super) async fn go(&mut self) -> Result<()> {
        self.stdin.write_all(b"GO\n").await?;
        Ok(self.stdin.flush().await?)
    }

    /// Waits for its last line, and returns the lines before it.
    pub(super) async fn done(&mut self) -> Result<Vec<String>> {
        self.until("DONE", PATIENCE).await
    }

    async fn until(&mut self, word: &str, patience: Duration) -> Result<Vec<String>> {
        let deadline = Instant::now() + patience;
        let mut said = Vec::new();
        loop {
            match tokio::time::timeout_at(deadline.into(), self.lines.recv()).await {
                Ok(Some(line)) if line == word => return Ok(said),
                Ok(Some(line)) => said.push(line),
                Ok(None) => return Err(self.complaint("ended")),
                Err(_) => return Err(self.complaint(&format!("did not say {word} within {} s", patience.as_secs()))),
            }
        }
    }

    /// Returns how often it printed RAN since the last call.
    pub(super) fn ran(&mut self) -> Result<usize> {
        let mut ran = 0;
        loop {
            match self.lines.try_recv() {
                Ok(line) => ran += usize::from(line == "RAN"),
                Err(mpsc::error::TryRecvError::Empty) => return Ok(ran),
                Err(mpsc::error::TryRecvError::Disconnected) => return Err(self.complaint("ended")),
            }
        }
    }

    fn complaint(&self, what: &str) -> crate::Error {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let last = log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no complaint");
        format!("`{}` {what}: {last}", self.what).into()
    }

    /// Returns seconds of processor time so far.
    pub(super) fn cpu(&self) -> Option<f64> {
        self.child.id().and_then(process_cpu)
    }

    /// Closes its input, which ends it.
    pub(super) async fn close(mut self) -> Result<()> {
        drop(self.stdin);
        if tokio::time::timeout(Duration::from_secs(10), self.child.wait()).await.is_err() {
            self.child.kill().await?;
        }
        Ok(())
    }
}

/// Runs `setup`.
pub(super) async fn setup(launch: &Launch, url: &str) -> Result<()> {
    let mut child = command(launch, url, "setup")?.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
    let status = tokio::time::timeout(Duration::from_secs(60), child.wait()).await;
    match status.map_err(|_| "`setup` did not end within 60 s")?? {
        status if status.success() => Ok(()),
        status => {
            let log = std::fs::read_to_string(&launch.log).unwrap_or_default();
            Err(format!("`setup` ended with {status}: {}", log.lines().last().unwrap_or_default()).into())
        }
    }
}

fn command(launch: &Launch, url: &str, mode: &str) -> Result<Command> {
    let log = std::fs::File::create(&launch.log)?;
    let mut command = Command::new(&launch.program);
    command
        .args(&launch.args)
        .arg(mode)
        .env("DATABASE_URL", url)
        .env("BENCH_PAYLOAD", payload())
        .envs(launch.variables.iter().map(|(name, value)| (name, value)))
        // graphile-worker logs a line for each job unless this is set.
        .env("NO_LOG_SUCCESS", "1")
        .stderr(log)
        .kill_on_drop(true);
    Ok(command)
}
