//! Running programs: commands are shown, and every wait has a deadline.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The error is a text: what was tried, on what, why it failed, what to do.
pub(crate) type Result<T> = std::result::Result<T, String>;

const POLL: Duration = Duration::from_millis(20);

/// Returns the top folder of the checkout from which this was started.
pub(crate) fn workspace() -> PathBuf {
    // Cargo sets this when it runs the program. The value from build time is the fallback, since checkouts that share a target folder share the
    // program too.
    let own =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    own.parent().map_or_else(|| own.clone(), Path::to_path_buf)
}

/// Returns a cargo command in the workspace, with the cargo that runs this program.
pub(crate) fn cargo<I, S>(args: I) -> Command
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(args).current_dir(workspace());
    command
}

/// Formats the command as a person would type it. Of environment variables whose values may be secret, only the names are shown.
pub(crate) fn shown(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        let name = name.to_string_lossy();
        match value {
            None => words.push(format!("{name}=")),
            Some(_) if name.ends_with("_URL") || name.contains("PASSWORD") => {
                words.push(format!("{name}=..."));
            }
            Some(value) => words.push(format!("{name}={}", quoted(&value.to_string_lossy()))),
        }
    }
    let program = Path::new(command.get_program());
    words.push(program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned());
    words.extend(command.get_args().map(|word| quoted(&word.to_string_lossy())));
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Enough for cargo to compile everything, or to run all tests, on a slow machine; a command that takes longer hangs.
pub(crate) const CARGO: Duration = Duration::from_secs(60 * 60);

/// Shows the command, runs it on this terminal and waits for its end, for `deadline` at most.
pub(crate) fn run(command: &mut Command, deadline: Duration) -> Result<()> {
    let text = shown(command);
    eprintln!("$ {text}");
    let mut child = spawn(command)?;
    let status = wait(&mut child, deadline, &text)?;
    if status.success() { Ok(()) } else { Err(format!("`{text}` ended with {status}")) }
}

/// Runs a program that prints little and leaves nothing behind. Returns its output; the error has its message.
pub(crate) fn capture(command: &mut Command, deadline: Duration) -> Result<String> {
    let text = shown(command);
    let mut child = spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let status = wait(&mut child, deadline, &text)?;
    let said = |stream: Option<&mut dyn std::io::Read>| {
        let mut text = String::new();
        if let Some(stream) = stream {
            // Unreadable output is no reason to fail: the exit status decides.
            let _ = stream.read_to_string(&mut text);
        }
        text.trim().to_owned()
    };
    let out = said(child.stdout.as_mut().map(|stream| stream as _));
    if status.success() {
        return Ok(out);
    }
    let complaint = said(child.stderr.as_mut().map(|stream| stream as _));
    Err(if complaint.is_empty() { format!("`{text}` ended with {status}") } else { complaint })
}

/// Runs a program that may leave a server behind. Its output goes to a file, since a pipe held open by that server would never end.
pub(crate) fn logged(command: &mut Command, log: &Path, deadline: Duration) -> Result<()> {
    let text = shown(command);
    eprintln!("$ {text}");
    let mut child = spawn_logged(command, log)?;
    let status = wait(&mut child, deadline, &text)?;
    if status.success() { Ok(()) } else { Err(format!("`{text}` ended with {status}{}", tail(log))) }
}

/// Starts a program with its output in a file, out of reach of this terminal's Ctrl-C.
pub(crate) fn spawn_logged(command: &mut Command, log: &Path) -> Result<Child> {
    use std::os::unix::process::CommandExt as _;
    let open = || {
        File::options()
            .create(true)
            .append(true)
            .open(log)
            .map_err(|why| format!("cannot write {}: {why}", log.display()))
    };
    spawn(command.stdin(Stdio::null()).stdout(open()?).stderr(open()?).process_group(0))
}

/// Runs a program that may fail and prints much, with its output in a separate file. Returns its exit code.
pub(crate) fn ended(command: &mut Command, log: &Path, deadline: Duration) -> Result<Option<i32>> {
    let open = |new| {
        File::options()
            .create(true)
            .write(true)
            .truncate(new)
            .append(!new)
            .open(log)
            .map_err(|why| format!("cannot write {}: {why}", log.display()))
    };
    drop(open(true)?);
    let text = shown(command);
    let mut child = spawn(command.stdin(Stdio::null()).stdout(open(false)?).stderr(open(false)?))?;
    wait(&mut child, deadline, &text).map(|status| status.code())
}

fn spawn(command: &mut Command) -> Result<Child> {
    command.spawn().map_err(|why| {
        let program = command.get_program().to_string_lossy().into_owned();
        format!("cannot run {program}: {why}")
    })
}

fn wait(child: &mut Child, deadline: Duration, text: &str) -> Result<ExitStatus> {
    let end = Instant::now() + deadline;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if Instant::now() < end => std::thread::sleep(POLL),
            Ok(None) => {
                end_child(child);
                return Err(format!("`{text}` was stopped: it had not ended after {deadline:?}"));
            }
            Err(why) => return Err(format!("waiting for `{text}` failed: {why}")),
        }
    }
}

/// Ends a program whose time is over. It gets a signal first: cargo and the test runner then end their own children.
fn end_child(child: &mut Child) {
    const PATIENCE: Duration = Duration::from_secs(10);
    let mut ask = Command::new("kill");
    ask.arg(child.id().to_string()).stdin(Stdio::null()).stderr(Stdio::null());
    // It may just have ended, or `kill` may be missing: the following works without it.
    let _ = ask.status();
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(POLL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// Returns the last lines of a log, to be shown below an error.
pub(crate) fn tail(log: &Path) -> String {
    let mut bytes = Vec::new();
    if File::open(log).and_then(|mut file| file.read_to_end(&mut bytes)).is_err() {
        return String::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(15)..].join("\n  ");
    if last.is_empty() { String::new() } else { format!("; its last words:\n  {last}") }
}

/// Writes a file; the error names it.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|why| format!("cannot write {}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let mut command = Command::new("/usr/bin/psql");
        command.env("PGPASSWORD", "s3cret").env("DATABASE_URL", "postgres://a:s3cret@h/d");
        command.env("PGCONNECT_TIMEOUT", "5").args(["-c", "select 1"]);
        assert_eq!(shown(&command), "DATABASE_URL=... PGCONNECT_TIMEOUT=5 PGPASSWORD=... psql -c 'select 1'");
    }

    #[test]
    fn a_program_that_does_not_end_is_stopped_at_the_deadline() {
        let begin = Instant::now();
        let result = capture(Command::new("sleep").arg("30"), Duration::from_millis(100));
        assert!(result.is_err_and(|why| why.contains("was stopped")));
        assert!(begin.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_failing_program_is_quoted() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such luck >&2; exit 3"]);
        assert_eq!(capture(&mut command, Duration::from_secs(10)), Err("no such luck".to_owned()));
    }
}
