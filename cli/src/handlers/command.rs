//! A program as a handler.

use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jobwright::headers::REPLY_TO;
use jobwright::{AnyStore, Job, JobContext, JobError, Outcome, Payload};
use nix::sys::signal::Signal;
use tokio::process::Command;

use super::environment;
use super::group::Group;
use super::leash::{self, Leash};
use super::pipes::{Pipes, STDERR_KEPT, STDOUT_MOST, Written};
use super::program_file::fault;
use super::stopping::Stopping;
use super::withheld::{HOOKS_WITHHELD, KEYS_WITHHELD, URL_VARIABLES, WITHHELD, is_hook, is_key};
use super::{ANY_BYTES, Ended, Output, reply, tail};

/// `EX_TEMPFAIL` of sysexits.h: not now.
const TRY_LATER: i32 = 75;
/// `EX_DATAERR`: this input can never work.
const NEVER: i32 = 65;
/// What to do about a program that is not there.
const ADVICE: &str = "check the handler's `command` and PATH";
/// How long another process that outlives the program may keep its stdout and stderr open.
const LINGER: Duration = Duration::from_secs(2);

/// Given back without spending an attempt.
const STOPPED: Finished = Finished::Back(Duration::ZERO);

/// Runs a program for each job.
pub(crate) struct Program {
    pub(crate) words: Vec<String>,
    /// Whether it gets the URLs of the worker's database and broker.
    pub(crate) pass_urls: bool,
    /// Whether its output is sent to the requester of the result.
    pub(crate) reply: bool,
    /// How long it may run until it is asked to end.
    pub(crate) timeout: Option<Duration>,
    /// Time from then until it is killed.
    pub(crate) stop_grace: Duration,
    /// Delay of a job whose program exits with "later".
    pub(crate) later: Duration,
    pub(crate) output: Arc<Output>,
    /// Signals that the worker stops.
    pub(crate) stopping: Stopping,
}

/// How a program ended that did not fail.
enum Finished {
    /// It succeeded, with this output on stdout.
    Well(Vec<u8>),
    /// The job is given back without an attempt, for this long.
    Back(Duration),
}

/// Why a program was asked to end.
enum Asked {
    Timeout(Duration),
    /// Its job was cancelled: its work is not wanted any more.
    Cancel,
    /// The worker stops.
    Stop,
}

impl Program {
    fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// Checks whether the program can be started, as far as its file tells.
    pub(crate) fn check(&self) -> Result<(), String> {
        let name = self.name();
        fault(name).map_or(Ok(()), |why| Err(format!("the program `{name}` {why}; {ADVICE}")))
    }

    /// Runs the program for one job, and copies its output to the worker's stdout. If the handler answers and the job asks for a result,
    /// the output is sent there instead.
    pub(crate) async fn run(&self, cx: &mut JobContext<'_, (), AnyStore>) -> Ended {
        let stdout = match self.execute(cx.job(), cx.cancelled()).await? {
            Finished::Well(stdout) => stdout,
            Finished::Back(delay) => return Ok(Outcome::Snooze(delay)),
        };
        if !self.reply || !cx.job().headers.contains_key(REPLY_TO) {
            return self.write(stdout).await;
        }
        let answer = match String::from_utf8(stdout) {
            Ok(text) => Payload::text(text),
            Err(raw) => Payload::bytes(ANY_BYTES, raw.into_bytes()),
        };
        reply(cx, answer)
    }

    async fn write(&self, stdout: Vec<u8>) -> Ended {
        match self.output.write(stdout).await {
            Ok(()) => Ok(Outcome::Done),
            Err(error) => {
                tracing::error!(%error, "the output of `{}` could not be written to stdout", self.name());
                // Not the program's fault, so it costs no attempt: the worker stops.
                Ok(Outcome::Snooze(Duration::from_secs(1)))
            }
        }
    }

    /// Runs the program for one job. At its timeout, or when its job is cancelled or the worker stops, its process group gets SIGTERM, and
    /// SIGKILL a while later. If this future is dropped (lease lost, or the engine's grace over), the group is killed. If the worker dies,
    /// the program is killed.
    async fn execute(&self, job: &Job, cancelled: impl Future<Output = ()>) -> Result<Finished, JobError> {
        let (command, leash) = self.command(job);
        let mut child = leash::start(command).await.map_err(|error| self.not_started(&error))?;
        let mut group = Group::of(&child);
        let mut written = Written::default();
        let asked = OnceLock::new();
        let status = {
            let pipes = Pipes::take(&mut child);
            let talk = pipes.talk(job.payload.as_bytes(), &mut written, &group);
            let stop = self.stop(cancelled, &asked, &group);
            tokio::pin!(talk, stop);
            let mut talking = true;
            let status = loop {
                tokio::select! {
                    biased;
                    // Checked first: a program that has ended need not be stopped.
                    status = child.wait() => break status,
                    // Dropping the group kills it.
                    () = self.stopping.at_once() => return Ok(STOPPED),
                    () = &mut talk, if talking => talking = false,
                    () = &mut stop => {}
                }
            };
            if talking && tokio::time::timeout(LINGER, &mut talk).await.is_err() {
                tracing::debug!(
                    program = self.name(),
                    "a process that it started still held its output, and is killed"
                );
            }
            status
        };
        // A process that it started may have closed its output and still run.
        group.end();
        let status =
            status.map_err(|error| JobError::new(format!("`{}` could not be waited for: {error}", self.name())))?;
        if let Some(error) = leash.refusal(status, &written.stderr) {
            return Err(self.not_started(&error));
        }
        match asked.into_inner() {
            None => self.conclude(status, written),
            // It finished nevertheless, as a Rust handler may while its worker stops. Running it again would be pointless.
            Some(Asked::Stop) if status.code() == Some(0) => self.conclude(status, written),
            Some(Asked::Stop | Asked::Cancel) => Ok(STOPPED),
            Some(Asked::Timeout(limit)) => {
                let error = JobError::new(format!("the handler did not finish within {limit:?}"));
                let stderr = tail(&written.stderr, STDERR_KEPT);
                Err(if stderr.is_empty() { error } else { error.detail(stderr) })
            }
        }
    }

    /// Asks the program to end when necessary, and kills it a while later. Does not return.
    async fn stop(&self, cancelled: impl Future<Output = ()>, asked: &OnceLock<Asked>, group: &Group) {
        let overrun = async {
            match self.timeout {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let why = tokio::select! {
            () = overrun => Asked::Timeout(self.timeout.unwrap_or_default()),
            () = cancelled => Asked::Cancel,
            () = self.stopping.in_order() => Asked::Stop,
        };
        let _ = asked.set(why);
        group.signal(Signal::SIGTERM);
        tokio::time::sleep(self.stop_grace).await;
        group.signal(Signal::SIGKILL);
        std::future::pending::<()>().await;
    }

    fn command(&self, job: &Job) -> (Command, Leash) {
        let (mut command, leash) = Leash::command(self.name());
        command
            .args(self.words.iter().skip(1))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A separate process group: whatever the program starts is killed with it, and Ctrl-C in a terminal stops the worker in good
            // order instead of every program at once.
            .process_group(0)
            .kill_on_drop(true);
        // An empty variable counts as not set.
        for (variable, _) in std::env::vars_os().filter(|(_, value)| !value.is_empty()) {
            let name = variable.to_string_lossy();
            if is_key(&name) {
                command.env_remove(&variable).env(KEYS_WITHHELD, "1");
            } else if is_hook(&name) {
                command.env_remove(&variable).env(HOOKS_WITHHELD, "1");
            }
        }
        if !self.pass_urls {
            // They contain the worker's passwords. A handler seldom needs them, and an untrusted payload may make it print them.
            for variable in URL_VARIABLES {
                command.env_remove(variable);
            }
            command.env(WITHHELD, "1");
        }
        // Last: it fills the space that is left.
        environment::add(&mut command, job);
        (command, leash)
    }

    /// A program that can't be started is the fault of this node, and not of the job.
    fn not_started(&self, error: &std::io::Error) -> JobError {
        let name = self.name();
        JobError::not_here(match error.kind() {
            ErrorKind::NotFound => format!("`{name}` could not be started: there is no such program; {ADVICE}"),
            ErrorKind::PermissionDenied => {
                format!("`{name}` could not be started: it may not be executed (permission denied)")
            }
            _ => format!("`{name}` could not be started: {error}"),
        })
    }

    /// Turns an exit status into an outcome.
    fn conclude(&self, status: ExitStatus, written: Written) -> Result<Finished, JobError> {
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
            (Some(0), _) => return Ok(Finished::Well(written.stdout)),
            (Some(TRY_LATER), _) => {
                tracing::info!(again_in = ?self.later, "`{name}` asked to be tried later (exit code {TRY_LATER}){last}");
                return Ok(Finished::Back(self.later));
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
