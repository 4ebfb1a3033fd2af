//! A program as a handler.

use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use jobwright::{AnyStore, Job, JobContext, JobError, Outcome, Payload, REPLY_TO};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio_util::sync::CancellationToken;

use super::leash::{self, Leash};
use super::{Ended, Output, reply, tail, trace};
use crate::config::{SEAL_KEYS, URL_VARIABLES, WITHHELD};

/// `EX_TEMPFAIL` of sysexits.h: not now.
const TRY_LATER: i32 = 75;
/// `EX_DATAERR`: this input can never work.
const NEVER: i32 = 65;
/// What a program may write to stdout.
const STDOUT_MOST: usize = 1024 * 1024;
/// How much of the end of stderr is kept.
const STDERR_KEPT: usize = 4 * 1024;
/// How long something that outlives the program may hold its stdout and stderr.
const LINGER: Duration = Duration::from_secs(2);

/// Given back at no attempt.
const STOPPED: Outcome = Outcome::Snooze(Duration::ZERO);

/// Runs a program for each job.
pub(crate) struct Program {
    words: Vec<String>,
    /// It is told where the worker's database and broker are.
    pass_urls: bool,
    output: Arc<Output>,
    /// The worker stops at once.
    abort: CancellationToken,
}

impl Program {
    pub(crate) fn new(words: Vec<String>, pass_urls: bool, output: Arc<Output>, abort: CancellationToken) -> Self {
        Self { words, pass_urls, output, abort }
    }

    fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// Runs it for one job, and writes what it wrote to the worker's stdout.
    pub(crate) async fn run(&self, job: &Job) -> Ended {
        match self.execute(job).await? {
            Some(stdout) => self.write(stdout).await,
            None => Ok(STOPPED),
        }
    }

    /// The same; but if the job asks for a result, what the program wrote is sent there instead.
    pub(crate) async fn answer(&self, cx: &mut JobContext<'_, (), AnyStore>) -> Ended {
        let Some(stdout) = self.execute(cx.job()).await? else { return Ok(STOPPED) };
        if !cx.job().headers.contains_key(REPLY_TO) {
            return self.write(stdout).await;
        }
        let answer = match String::from_utf8(stdout) {
            Ok(text) => Payload::text(text),
            Err(raw) => Payload::bytes("application/octet-stream", raw.into_bytes()),
        };
        reply(cx, answer)
    }

    async fn write(&self, stdout: Vec<u8>) -> Ended {
        match self.output.write(stdout).await {
            Ok(()) => Ok(Outcome::Done),
            Err(error) => {
                tracing::error!(%error, "the output of `{}` could not be written to stdout", self.name());
                // Not its fault, so it costs no attempt; the worker stops.
                Ok(Outcome::Snooze(Duration::from_secs(1)))
            }
        }
    }

    /// Runs it for one job and returns what it wrote; `None`: the worker stops. When this future is dropped (timeout, lost lease,
    /// shutdown), the program and all it started in its process group are killed; if the worker dies, the program is.
    async fn execute(&self, job: &Job) -> Result<Option<Vec<u8>>, JobError> {
        let (command, leash) = self.command(job);
        let mut child = leash::start(command).await.map_err(|error| self.not_started(&error))?;
        let mut group = Group::of(&child);
        let mut written = Written::default();
        let status = {
            let pipes = Pipes::take(&mut child);
            let talk = pipes.talk(job.payload.as_bytes(), &mut written, &group);
            tokio::pin!(talk);
            let mut talking = true;
            let status = loop {
                tokio::select! {
                    // Given back at no attempt; the group is killed when it is dropped.
                    () = self.abort.cancelled() => return Ok(None),
                    status = child.wait() => break status,
                    () = &mut talk, if talking => talking = false,
                }
            };
            if talking && tokio::time::timeout(LINGER, &mut talk).await.is_err() {
                tracing::debug!(program = self.name(), "something it started still held its output, and is killed");
            } else {
                talking = false;
            }
            (status, talking)
        };
        let (status, lingers) = status;
        if lingers && !written.too_much {
            group.kill();
        }
        group.forget();
        let status =
            status.map_err(|error| JobError::new(format!("`{}` could not be waited for: {error}", self.name())))?;
        if let Some(error) = leash.refusal(status, &written.stderr) {
            return Err(self.not_started(&error));
        }
        self.conclude(status, written).map(Some)
    }

    fn command(&self, job: &Job) -> (Command, Leash) {
        let (mut command, leash) = Leash::command(self.name());
        command
            .args(self.words.iter().skip(1))
            .env("JOBWRIGHT_JOB_ID", job.id.to_string())
            .env("JOBWRIGHT_KIND", &job.kind)
            .env("JOBWRIGHT_QUEUE", &job.queue)
            .env("JOBWRIGHT_ATTEMPT", job.attempt.to_string())
            .env("JOBWRIGHT_MAX_ATTEMPTS", job.max_attempts.to_string())
            .env("JOBWRIGHT_PRIORITY", job.priority.to_string())
            .env("JOBWRIGHT_CONTENT_TYPE", job.payload.content_type())
            .env("JOBWRIGHT_CREATED_AT", job.created_at.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own: what the program starts is killed with it, and Ctrl-C in a terminal stops the worker in good
            // order instead of every program at once.
            .process_group(0)
            .kill_on_drop(true);
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with(SEAL_KEYS) {
                command.env_remove(variable);
            }
        }
        if !self.pass_urls {
            // They hold the passwords of the worker, which a handler seldom needs and a stranger's payload may make it print.
            for variable in URL_VARIABLES {
                command.env_remove(variable);
            }
            command.env(WITHHELD, "1");
        }
        for (name, value) in trace(job) {
            let variable = format!("JOBWRIGHT_{}", name.to_ascii_uppercase());
            match value {
                Some(value) => command.env(variable, value),
                // The worker's own, if it was started by a program of another one.
                None => command.env_remove(variable),
            };
        }
        for (name, value) in &job.headers {
            command.env(header_variable(name), value);
        }
        (command, leash)
    }

    fn not_started(&self, error: &std::io::Error) -> JobError {
        let name = self.name();
        JobError::new(match error.kind() {
            ErrorKind::NotFound => {
                format!(
                    "`{name}` could not be started: there is no such program; check the handler's `command` and PATH"
                )
            }
            ErrorKind::PermissionDenied => {
                format!("`{name}` could not be started: it may not be executed (permission denied)")
            }
            _ => format!("`{name}` could not be started: {error}"),
        })
    }

    /// What it wrote to stdout, if it ended well.
    fn conclude(&self, status: ExitStatus, written: Written) -> Result<Vec<u8>, JobError> {
        let name = self.name();
        let stderr = tail(&written.stderr, STDERR_KEPT);
        let last = stderr.lines().rev().find(|line| !line.trim().is_empty());
        let last = last.map_or_else(String::new, |line| format!(": {}", crate::output::one_line(line.trim(), 200)));
        let explained = |error: JobError| if stderr.is_empty() { error } else { error.detail(stderr.clone()) };
        if written.too_much {
            return Err(explained(JobError::new(format!(
                "`{name}` wrote more than {STDOUT_MOST} bytes to stdout and was killed: write large results to a file"
            ))));
        }
        Err(explained(match (status.code(), status.signal()) {
            (Some(0), _) => return Ok(written.stdout),
            (Some(TRY_LATER), _) => {
                JobError::new(format!("`{name}` asked to be tried later (exit code {TRY_LATER}){last}"))
            }
            (Some(NEVER), _) => {
                JobError::fatal(format!("`{name}` said that it can never succeed (exit code {NEVER}){last}"))
            }
            (Some(code), _) => JobError::new(format!("`{name}` ended with exit code {code}{last}")),
            (None, signal) => {
                let signal = signal.unwrap_or_default();
                let known = Signal::try_from(signal).map_or_else(|_| String::new(), |known| format!(" ({known})"));
                JobError::new(format!("`{name}` was killed by signal {signal}{known}{last}"))
            }
        }))
    }
}

/// What a program wrote.
#[derive(Default)]
struct Written {
    stdout: Vec<u8>,
    /// It wrote more than is allowed.
    too_much: bool,
    stderr: Vec<u8>,
}

/// The three pipes of a program.
struct Pipes {
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

impl Pipes {
    fn take(child: &mut Child) -> Self {
        Self { stdin: child.stdin.take(), stdout: child.stdout.take(), stderr: child.stderr.take() }
    }

    /// Feeds the payload and reads both outputs to their end, at the same time: none may fill up while another is served.
    async fn talk(self, payload: &[u8], written: &mut Written, group: &Group) {
        let Self { stdin, stdout, stderr } = self;
        let feed = async move {
            if let Some(mut stdin) = stdin {
                // A program need not read its input.
                let _ = stdin.write_all(payload).await;
                let _ = stdin.shutdown().await;
            }
        };
        let out = async {
            if let Some(stdout) = stdout {
                read_limited(stdout, &mut written.stdout, &mut written.too_much, group).await;
            }
        };
        let err = async {
            if let Some(stderr) = stderr {
                read_tail(stderr, &mut written.stderr).await;
            }
        };
        tokio::join!(feed, out, err);
    }
}

async fn read_limited(mut stdout: impl AsyncRead + Unpin, into: &mut Vec<u8>, too_much: &mut bool, group: &Group) {
    let mut chunk = vec![0; 16 * 1024];
    while let Ok(n @ 1..) = stdout.read(&mut chunk).await {
        if into.len() + n > STDOUT_MOST {
            *too_much = true;
            group.kill();
            return;
        }
        into.extend_from_slice(&chunk[..n]);
    }
}

/// Keeps the end, in memory twice as large at most.
async fn read_tail(mut stderr: impl AsyncRead + Unpin, into: &mut Vec<u8>) {
    let mut chunk = vec![0; 4 * 1024];
    while let Ok(n @ 1..) = stderr.read(&mut chunk).await {
        into.extend_from_slice(&chunk[..n]);
        if into.len() > 4 * STDERR_KEPT {
            into.drain(..into.len() - 2 * STDERR_KEPT);
        }
    }
}

/// The process group of a program. Dropping it kills whoever is left.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw))
    }

    fn kill(&self) {
        if let Some(group) = self.0 {
            // It may have ended by itself.
            let _ = killpg(group, Signal::SIGKILL);
        }
    }

    /// It has ended: its number may soon belong to somebody else.
    fn forget(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// `tenant-id` is `JOBWRIGHT_HEADER_TENANT_ID`.
fn header_variable(name: &str) -> String {
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    format!("JOBWRIGHT_HEADER_{name}")
}
