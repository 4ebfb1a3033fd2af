//! The processes of a fleet, as the benchmark that started them sees them.

use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;

use super::args::MemberArgs;
use super::member::URL;
use super::nodes::PATIENCE;
use crate::Result;

/// A running process.
pub(super) struct Process {
    child: Child,
    stdin: ChildStdin,
}

/// A line that a process has printed.
#[derive(Debug)]
pub(super) struct Said {
    /// Number of the process.
    pub(super) process: usize,
    pub(super) line: String,
    pub(super) at: Instant,
}

/// Starts processes, numbered in this order, and returns when all their executors are ready.
pub(super) async fn start(members: &[MemberArgs], url: &str) -> Result<(Vec<Process>, mpsc::UnboundedReceiver<Said>)> {
    let (sender, mut said) = mpsc::unbounded_channel();
    let mut processes = Vec::new();
    for (number, args) in members.iter().enumerate() {
        processes.push(Process::start(args, url, number, sender.clone())?);
    }
    let mut starting = processes.len();
    let deadline = Instant::now() + PATIENCE;
    while starting > 0 {
        match next(&mut said, deadline).await {
            Some(Said { line, .. }) if line == "READY" => starting -= 1,
            Some(Said { line, .. }) => {
                return Err(format!("a process of the fleet said {line:?} before it was ready").into());
            }
            None => return Err(format!("{starting} processes of the fleet are not ready in time").into()),
        }
    }
    Ok((processes, said))
}

/// Returns the next line, or `None` if there is none in time.
pub(super) async fn next(said: &mut mpsc::UnboundedReceiver<Said>, deadline: Instant) -> Option<Said> {
    tokio::time::timeout_at(deadline.into(), said.recv()).await.ok().flatten()
}

impl Process {
    fn start(args: &MemberArgs, url: &str, number: usize, sender: mpsc::UnboundedSender<Said>) -> Result<Self> {
        let program = std::env::current_exe().map_err(|e| format!("this program's own file is not known: {e}"))?;
        let mut child = Command::new(program)
            .args(args.words())
            .env(URL, url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| format!("a process of the fleet can't be started: {e}"))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            return Err("no pipe to a process of the fleet".into());
        };
        tokio::spawn(async move {
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                if sender.send(Said { process: number, line, at: Instant::now() }).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, stdin })
    }

    /// Lets its jobs end.
    pub(super) async fn release(&mut self) -> Result<()> {
        self.stdin.write_all(b"RELEASE\n").await?;
        Ok(self.stdin.flush().await?)
    }

    /// Kills it, as `kill -9` does.
    pub(super) async fn kill(&mut self) -> Result<()> {
        tokio::time::timeout(Duration::from_secs(10), self.child.kill())
            .await
            .map_err(|_| "a process of the fleet was killed, and has not ended within 10 s")?
            .map_err(|e| format!("a process of the fleet can't be killed: {e}").into())
    }
}
