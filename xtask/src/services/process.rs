//! Ends a process that an earlier run started.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::run::{self, Result};

/// The time for a server to end cleanly, and then for the kernel to end it.
const GRACE: Duration = Duration::from_secs(30);
const KILLED: Duration = Duration::from_secs(10);

/// Ends the process if it is still the one that was started, that is, if its command line contains `mark`.
pub(super) fn terminate(name: &str, pid: u32, mark: &str, signal: &str) -> Result<()> {
    for (signal, deadline) in [(signal, GRACE), ("KILL", KILLED)] {
        if !is(pid, mark) {
            return Ok(());
        }
        // It may end between the check and the signal; the loop below sees that.
        let sent = kill(pid, signal);
        let end = Instant::now() + deadline;
        while is(pid, mark) {
            if Instant::now() >= end {
                break;
            }
            sent.clone()?;
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    if is(pid, mark) {
        return Err(format!("{name} (process {pid}) does not end: see `ps -p {pid}`"));
    }
    Ok(())
}

fn kill(pid: u32, signal: &str) -> Result<()> {
    send(signal, &pid.to_string()).map_err(|why| format!("cannot end process {pid}: {why}"))
}

/// Ends a child that was started in a separate process group, with all that it started.
pub(super) fn kill_group(leader: &mut Child) {
    // It fails if all of them have ended.
    let _ = send("KILL", &format!("-{}", leader.id()));
    let _ = leader.wait();
}

/// Runs the shell, which has `kill` built in: the program of that name is not on every machine.
fn send(signal: &str, to: &str) -> Result<()> {
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"kill -s "$1" -- "$2""#, "kill", signal, to]);
    run::capture(&mut shell, Duration::from_secs(10)).map(drop)
}

/// Whether that process runs and has `mark` in its command line. A zombie has no command line.
fn is(pid: u32, mark: &str) -> bool {
    if Path::new("/proc/self/cmdline").exists() {
        return std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " ").contains(mark));
    }
    let mut ps = Command::new("ps");
    ps.args(["-ww", "-o", "args=", "-p"]).arg(pid.to_string());
    run::capture(&mut ps, Duration::from_secs(10)).is_ok_and(|line| line.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_process_that_was_started_is_ended() {
        let mut child = Command::new("sleep").arg("61.5").spawn().unwrap();
        // The child's command line is its parent's until the program is loaded.
        let end = Instant::now() + Duration::from_secs(10);
        while !is(child.id(), "sleep 61.5") && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }

        terminate("another", child.id(), "postgres -D elsewhere", "TERM").unwrap();
        assert!(child.try_wait().unwrap().is_none(), "it was not ours to end");

        terminate("sleep", child.id(), "sleep 61.5", "TERM").unwrap();
        assert!(!child.wait().unwrap().success());
    }
}
