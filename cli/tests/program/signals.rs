//! Signals to a worker: none of them costs a job an attempt.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{Sandbox, Worker, until};
use serde_json::json;

/// Signals that begin a stop, and whether a second one stops at once.
const STOPS: [(&str, bool); 6] =
    [("INT", true), ("TERM", true), ("QUIT", true), ("HUP", false), ("XCPU", false), ("PWR", false)];

/// What no process can catch, or stops and continues it.
const OF_THE_SYSTEM: [i32; 6] = [9, 18, 19, 20, 21, 22];
/// What the kernel sends for a fault of the process itself.
const FAULTS: [i32; 7] = [4, 5, 6, 7, 8, 11, 31];
/// What the C library keeps for itself.
const OF_LIBC: [i32; 2] = [32, 33];

/// A worker that runs one job, which ends when the file `go` is there.
fn busy() -> (Sandbox, Worker, String) {
    let sandbox = Sandbox::sqlite();
    sandbox.configure(
        r#"
        grace = "1h"
        [handlers.t]
        command = ["sh", "-c", "touch started; while ! test -e go; do sleep 0.05; done"]
        "#,
    );
    let id = sandbox.send(&["t", "--max-attempts", "1"]);
    let worker = sandbox.worker(&[]);
    until("the job to start", || sandbox.file("started").exists());
    (sandbox, worker, id)
}

fn number(name: &str) -> i32 {
    let said = Command::new("kill").args(["-l", name]).output().unwrap().stdout;
    String::from_utf8(said).unwrap().trim().parse().unwrap()
}

#[test]
fn signals_that_stop_a_worker_let_its_jobs_end() {
    for (name, _) in STOPS {
        let (sandbox, mut worker, id) = busy();
        worker.signal(name);
        until("the worker to stop", || worker.said().contains("stopping: no more jobs are taken"));
        assert!(worker.said().contains(&format!("SIG{name}")), "{}", worker.said());
        std::fs::write(sandbox.file("go"), "").unwrap();
        assert_eq!(worker.ended(), Some(0), "SIG{name}: {}", worker.said());
        sandbox.gone(&id);
    }
}

/// A terminal that closes and a limit of CPU time send theirs more than once.
#[test]
fn only_people_make_a_stop_a_hard_one() {
    for (name, hard) in STOPS {
        let (sandbox, mut worker, id) = busy();
        worker.signal(name);
        until("the worker to stop", || worker.said().contains("stopping: no more jobs are taken"));
        // Signals within a second count as one.
        let begun = Instant::now();
        let repeated = begun + Duration::from_millis(1500);
        until("the signal to be repeated", || {
            if worker.child.try_wait().unwrap().is_none() {
                worker.signal(name);
            }
            Instant::now() > repeated
        });
        if !hard {
            std::fs::write(sandbox.file("go"), "").unwrap();
        }
        assert_eq!(worker.ended(), Some(i32::from(hard)), "SIG{name}: {}", worker.said());
        assert_eq!(worker.said().contains("stopping at once"), hard, "SIG{name}: {}", worker.said());
        if hard {
            let job = sandbox.show(&id);
            assert_eq!((&job["attempt"], &job["owner"]), (&json!(0), &json!(null)), "SIG{name}: {job}");
        } else {
            sandbox.gone(&id);
        }
    }
}

/// Every other signal that a process can catch: a new one in this list of the system's would end the worker here first.
#[test]
fn all_other_signals_mean_nothing() {
    let (sandbox, mut worker, id) = busy();
    let stops = STOPS.map(|(name, _)| number(name));
    let others = (1..=64)
        .filter(|signal| ![&OF_THE_SYSTEM[..], &FAULTS, &OF_LIBC, &stops].iter().any(|known| known.contains(signal)));
    for signal in others {
        worker.signal(&signal.to_string());
        assert_eq!(worker.child.try_wait().unwrap(), None, "signal {signal}: {}", worker.said());
    }
    std::fs::write(sandbox.file("go"), "").unwrap();
    until("the job to be over", || sandbox.list(&[]).is_empty());
    sandbox.gone(&id);
    assert!(!worker.said().contains("stopping"), "{}", worker.said());
    worker.signal("TERM");
    assert_eq!(worker.ended(), Some(0), "{}", worker.said());
}

/// `nohup`, and shells without job control.
#[test]
fn a_worker_ignores_signals_it_was_started_to_ignore() {
    let sandbox = Sandbox::sqlite();
    sandbox.configure("[handlers.t]\ncommand = [\"true\"]\n");
    let worker = sandbox.command(&["worker"]);
    let mut ignoring = Command::new("sh");
    ignoring.args(["-c", "trap '' HUP QUIT; exec \"$0\" \"$@\""]).arg(worker.get_program()).args(worker.get_args());
    for (name, value) in worker.get_envs() {
        match value {
            Some(value) => ignoring.env(name, value),
            None => ignoring.env_remove(name),
        };
    }
    let mut worker = Worker::start_in(ignoring.current_dir(sandbox.path()));
    until("the worker to be ready", || worker.said().contains("ready"));
    for name in ["HUP", "QUIT"] {
        worker.signal(name);
    }
    sandbox.send(&["t"]);
    until("the job to be over", || sandbox.list(&[]).is_empty());
    assert!(!worker.said().contains("stopping"), "{}", worker.said());
    worker.signal("TERM");
    assert_eq!(worker.ended(), Some(0), "{}", worker.said());
}
