//! What signals mean to a process that runs jobs.
//!
//! A signal that ended the process at once would cost each running job an attempt, and after three of them the job would be a dead letter.
//! Such signals come from people and tools that mean no crash: a terminal that closes, `systemctl reload`, a hook of logrotate, a limit of
//! CPU time. So every signal that would end a process by default, except the ones that report its own fault, either begins an orderly stop
//! or does nothing.
//!
//! Signals that do nothing are caught, not ignored: a program that is started would inherit that it ignores them.

use std::ops::RangeInclusive;
use std::task::Poll;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal as Known;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// Signals within this time count as one: a terminal and `timeout -s INT` signal the whole group, and calling programs pass the signal on.
const SAME: Duration = Duration::from_secs(1);

/// Signals with a meaning to people. A second one stops at once.
const ORDERS: [(SignalKind, &str); 3] =
    [(SignalKind::interrupt(), "SIGINT"), (SignalKind::terminate(), "SIGTERM"), (SignalKind::quit(), "SIGQUIT")];

/// Signals that report the end of something this process depends on. They begin a stop, and never make it a hard one, however often they
/// come: the kernel repeats SIGXCPU each second. Containers get SIGPWR for "shut down".
const OCCASIONS: &[(Known, &str)] = &[
    (Known::SIGHUP, "SIGHUP"),
    (Known::SIGXCPU, "SIGXCPU"),
    #[cfg(target_os = "linux")]
    (Known::SIGPWR, "SIGPWR"),
];

/// Signals that mean nothing here. A write beyond the limit of a file's size fails, as on a full disk.
const MEANINGLESS: &[Known] = &[
    Known::SIGUSR1,
    Known::SIGUSR2,
    Known::SIGALRM,
    Known::SIGVTALRM,
    Known::SIGPROF,
    Known::SIGXFSZ,
    #[cfg(target_os = "linux")]
    Known::SIGIO,
    #[cfg(target_os = "linux")]
    Known::SIGSTKFLT,
];

/// Linux's real-time signals that the C library leaves to programs.
const REAL_TIME: RangeInclusive<i32> = 34..=64;

/// The signals that tell a process to stop.
pub(crate) struct Signals {
    /// Time of the last signal that counted.
    last: Option<Instant>,
    orders: Vec<(Signal, &'static str)>,
    occasions: Vec<(Signal, &'static str)>,
}

impl Signals {
    /// Listens from now on, until the process ends.
    pub(crate) fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::Failed(format!("the program can't wait for signals: {error}")))
        };
        let ignored = ignored();
        // `nohup` and shells without job control have a process ignore what its terminal sends.
        let is_meant = |kind: SignalKind| ignored & bit(kind.as_raw_value()) == 0;
        let mut orders = Vec::new();
        for (kind, name) in ORDERS {
            // One that is asked to ignore the keys of its terminal may still be told to stop.
            if kind != SignalKind::quit() || is_meant(kind) {
                orders.push((listen(kind)?, name));
            }
        }
        let mut occasions = Vec::new();
        for (which, name) in OCCASIONS {
            let kind = SignalKind::from_raw(*which as i32);
            if is_meant(kind) {
                occasions.push((listen(kind)?, *name));
            }
        }
        let real_time = REAL_TIME.filter(|_| cfg!(target_os = "linux"));
        for which in MEANINGLESS.iter().map(|which| *which as i32).chain(real_time) {
            let kind = SignalKind::from_raw(which);
            if is_meant(kind) {
                // The process goes on catching it when nothing listens any more. Some systems have fewer of them.
                let _ = listen(kind);
            }
        }
        Ok(Self { last: None, orders, occasions })
    }

    /// Returns the name of the next signal that asks for a stop.
    pub(crate) async fn next(&mut self) -> &'static str {
        loop {
            let name = tokio::select! {
                name = any(&mut self.orders) => name,
                name = any(&mut self.occasions) => name,
            };
            if self.counts() {
                return name;
            }
        }
    }

    /// Returns the name of the next signal that asks for a stop at once, when one has begun.
    pub(crate) async fn urgent(&mut self) -> &'static str {
        loop {
            let name = any(&mut self.orders).await;
            if self.counts() {
                return name;
            }
        }
    }

    fn counts(&mut self) -> bool {
        let counts = self.last.is_none_or(|last| last.elapsed() >= SAME);
        if counts {
            self.last = Some(Instant::now());
        }
        counts
    }
}

/// Waits for any of these signals.
async fn any(signals: &mut [(Signal, &'static str)]) -> &'static str {
    std::future::poll_fn(|context| {
        for (signal, name) in &mut *signals {
            if signal.poll_recv(context).is_ready() {
                return Poll::Ready(*name);
            }
        }
        Poll::Pending
    })
    .await
}

/// Returns the signals that this process was started to ignore, as far as the system says so.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

fn bit(signal: i32) -> u64 {
    u32::try_from(signal - 1).ok().and_then(|shift| 1_u64.checked_shl(shift)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_its_bit() {
        assert_eq!((bit(1), bit(2), bit(64), bit(0), bit(65)), (1, 2, 1 << 63, 0, 0));
    }
}
