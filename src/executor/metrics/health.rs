//! How an executor is doing.

use std::fmt;

/// Whether an executor lives and works, from [`Telemetry::health`](crate::executor::Telemetry::health).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// Whether it can still work at some time. If not, only a restart of the process helps.
    pub is_live: bool,
    /// Whether its lease was renewed at least once, so it has begun to work.
    pub is_started: bool,
    /// The checks.
    pub checks: Vec<HealthCheck>,
}

impl Health {
    /// Returns whether it works now: nothing [failed](HealthState::Failed).
    pub fn is_ready(&self) -> bool {
        self.checks.iter().all(|check| check.state != HealthState::Failed)
    }
}

/// One check of a [`Health`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HealthCheck {
    /// Its subject: `executor`, `lease`, `queue NAME`, `kinds`, `tasks` or `broker`.
    pub name: String,
    /// The result.
    pub state: HealthState,
    /// The result in words, without secrets.
    pub text: String,
}

impl HealthCheck {
    pub(crate) fn new(name: impl Into<String>, state: HealthState, text: impl Into<String>) -> Self {
        Self { name: name.into(), state, text: text.into() }
    }
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HealthState {
    /// Nothing is wrong.
    Ok,
    /// Less works than should, and jobs still run.
    Degraded,
    /// No jobs are run, or not those of a queue.
    Failed,
}

impl HealthState {
    /// Returns it as a word.
    #[doc(hidden)]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for HealthState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
