//! How soon a dispatcher looks again after it found jobs that no hint announced.
//!
//! Triggers, plain SQL and programs in other languages send jobs without a hint, because a `NOTIFY` in their transactions would serialise the commits
//! of the whole database. A poll finds the first of their jobs. Where there was one, more are likely to come, so the dispatcher looks again
//! soon, and then less and less often: the pauses follow the gaps between such jobs. A stream of fifty a second is looked at
//! fifty times a second, one job an hour costs some fifteen claims, and jobs that hints announce cost none.

use std::time::Duration;

/// The pause after such a job was found.
const FIRST: Duration = Duration::from_millis(20);

/// The cause of a pass of claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// A hint, the end of a job, or a scan that goes on.
    Sign,
    /// Only a poll, which saw jobs.
    Poll,
    /// The end of a pause.
    Pause,
}

/// The pause before the next look.
#[derive(Debug)]
pub(super) struct Pace {
    pause: Option<Duration>,
    /// Polls look as often.
    longest: Duration,
}

impl Pace {
    pub(super) fn new(poll: Duration) -> Self {
        Self { pause: None, longest: poll }
    }

    /// Returns the pause before the next look; `None`: hints and polls are enough.
    pub(super) fn pause(&self) -> Option<Duration> {
        self.pause
    }

    /// Notes how a pass ended: whether it found jobs.
    pub(super) fn passed(&mut self, cause: Cause, has_found: bool) {
        self.pause = match cause {
            Cause::Poll | Cause::Pause if has_found => Some(FIRST),
            Cause::Pause => self.pause.map(|pause| pause * 3 / 2),
            Cause::Sign | Cause::Poll => self.pause,
        }
        .filter(|pause| *pause < self.longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_those_of_polls() {
        let mut pace = Pace::new(Duration::from_secs(5));
        pace.passed(Cause::Sign, true);
        pace.passed(Cause::Poll, false);
        assert_eq!(pace.pause(), None, "hints are enough");
        pace.passed(Cause::Poll, true);
        assert_eq!(pace.pause(), Some(FIRST));
        let mut looks = 0;
        while pace.pause().is_some() {
            pace.passed(Cause::Pause, false);
            pace.passed(Cause::Sign, true);
            looks += 1;
        }
        assert_eq!(looks, 14);
        pace.passed(Cause::Pause, false);
        assert_eq!(pace.pause(), None);
    }

    #[test]
    fn each_find_starts_over_and_no_pause_is_longer_than_that_of_polls() {
        let mut pace = Pace::new(Duration::from_secs(5));
        pace.passed(Cause::Poll, true);
        (0..5).for_each(|_| pace.passed(Cause::Pause, false));
        assert!(pace.pause() > Some(FIRST));
        pace.passed(Cause::Pause, true);
        assert_eq!(pace.pause(), Some(FIRST));
        let mut pace = Pace::new(FIRST);
        pace.passed(Cause::Poll, true);
        assert_eq!(pace.pause(), None);
    }
}
