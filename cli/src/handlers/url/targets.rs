//! The URLs of a kind: which of them can be reached, and which one gets the next request.
//!
//! A URL to which a request could not be delivered is left out until a connection to it succeeds (`probing.rs`). While all are left out, this node leaves the
//! kind alone.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use jobwright::{JobId, Secret};

/// The pause before the first attempt to connect again. Each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// All URLs of a kind.
pub(super) struct Targets {
    kind: String,
    all: Vec<Arc<Target>>,
    next: AtomicUsize,
}

impl Targets {
    pub(super) fn new(kind: &str, urls: Vec<Secret>) -> Self {
        let all = urls.into_iter().map(|url| Arc::new(Target { url, state: Mutex::default() })).collect();
        Self { kind: kind.to_owned(), all, next: AtomicUsize::new(0) }
    }

    /// Returns the URLs that can be reached, as far as this node knows, in the order in which a job tries them. Jobs begin with one after the other.
    pub(super) fn in_turn(&self) -> Vec<Arc<Target>> {
        let mut able: Vec<_> = self.all.iter().filter(|target| target.lock().outage.is_none()).cloned().collect();
        if able.len() > 1 {
            let first = self.next.fetch_add(1, Ordering::Relaxed) % able.len();
            able.rotate_left(first);
        }
        able
    }

    /// Returns the reason if none of them can be reached.
    pub(super) fn check(&self) -> Result<(), String> {
        let outages: Option<Vec<String>> = self.all.iter().map(|target| target.outage()).collect();
        match outages.as_deref() {
            None | Some([]) => Ok(()),
            Some([only]) => Err(only.clone()),
            Some(all) => Err(format!("none of its {} URLs can be reached: {}", all.len(), all.join("; "))),
        }
    }

    /// Leaves a URL out. Returns whether it was not left out before: then it has to be probed.
    pub(super) fn leave_out(&self, target: &Target, error: &str) -> bool {
        let is_new = target.lock().fail(error);
        // The last one is told with the kind, which is left alone from now on.
        if is_new && self.check().is_ok() {
            let (kind, url) = (&self.kind, target.place());
            tracing::warn!(
                kind,
                url,
                error,
                "this URL can't be reached: jobs go to the others of its kind until it can"
            );
        }
        is_new
    }

    /// Takes a URL in again, to which a connection has succeeded.
    pub(super) fn take_in(&self, target: &Target) {
        let others = self.check().is_ok();
        let Some(since) = target.lock().recover() else { return };
        if others && self.all.len() > 1 {
            let (kind, url, since) = (&self.kind, target.place(), since.to_string());
            tracing::info!(kind, url, since, "this URL can be reached again");
        }
    }
}

/// A URL.
pub(super) struct Target {
    pub(super) url: Secret,
    state: Mutex<State>,
}

impl Target {
    /// Returns the part of the URL that may be shown.
    pub(super) fn place(&self) -> String {
        self.url.redacted()
    }

    /// Notes that a request was delivered: the next outage begins with the shortest pause again.
    pub(super) fn delivered(&self) {
        self.lock().pauses = 0;
    }

    /// Returns the pause before the next attempt to connect, and keeps the reason why the last one failed.
    pub(super) fn next_pause(&self, error: Option<&str>) -> Duration {
        let mut state = self.lock();
        if let (Some(error), Some(outage)) = (error, &mut state.outage) {
            error.clone_into(&mut outage.error);
        }
        let pause = (FIRST_PAUSE * 2_u32.saturating_pow(state.pauses.min(16))).min(LONGEST_PAUSE);
        state.pauses += 1;
        jittered(pause)
    }

    fn outage(&self) -> Option<String> {
        let state = self.lock();
        let Outage { since, error } = state.outage.as_ref()?;
        Some(format!("{} can't be reached since {since}: {error}", self.place()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct State {
    outage: Option<Outage>,
    /// The pauses since a request was delivered. A server that takes connections and no requests is not tried ever faster.
    pauses: u32,
}

struct Outage {
    since: Timestamp,
    /// Why the last attempt failed.
    error: String,
}

impl State {
    fn fail(&mut self, error: &str) -> bool {
        if let Some(outage) = &mut self.outage {
            error.clone_into(&mut outage.error);
            return false;
        }
        // People read it: to the second.
        let now = Timestamp::now();
        let since = Timestamp::from_second(now.as_second()).unwrap_or(now);
        self.outage = Some(Outage { since, error: error.to_owned() });
        true
    }

    fn recover(&mut self) -> Option<Timestamp> {
        self.outage.take().map(|outage| outage.since)
    }
}

/// Returns a pause that is shortened or lengthened at random by up to a fifth, so that nodes which lost a server together do not come back together.
fn jittered(pause: Duration) -> Duration {
    // An id ends with random bits.
    let chance = f64::from(JobId::new().as_uuid().as_u64_pair().1 as u16) / f64::from(u16::MAX);
    pause.mul_f64(0.8 + 0.4 * chance)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(urls: &[&str]) -> Targets {
        Targets::new("kind", urls.iter().map(|url| Secret::new(*url)).collect())
    }

    fn places(targets: &Targets) -> Vec<String> {
        targets.in_turn().iter().map(|target| target.place()).collect()
    }

    #[test]
    fn requests_go_round_over_those_that_can_be_reached() {
        let targets = targets(&["http://a", "http://b", "http://c"]);
        let firsts: Vec<_> = (0..6).map(|_| places(&targets).remove(0)).collect();
        assert_eq!(firsts, ["http://a", "http://b", "http://c", "http://a", "http://b", "http://c"]);
        assert_eq!(places(&targets), ["http://a", "http://b", "http://c"]);
        assert!(targets.leave_out(&targets.all[1], "refused") && !targets.leave_out(&targets.all[1], "refused"));
        for _ in 0..4 {
            assert!(!places(&targets).contains(&"http://b".to_owned()));
        }
        targets.take_in(&targets.all[1]);
        assert_eq!(places(&targets).len(), 3);
    }

    #[test]
    fn the_reason_names_each_url_without_its_secrets() {
        let one = targets(&["http://u:hunter2@a:1/x?token=hunter2"]);
        assert!(one.check().is_ok());
        one.leave_out(&one.all[0], "refused");
        let reason = one.check().unwrap_err();
        assert!(
            reason.starts_with("http://a:1 can't be reached since 2") && reason.ends_with("Z: refused"),
            "{reason}"
        );
        assert!(one.in_turn().is_empty());

        let two = targets(&["http://a", "http://b"]);
        two.leave_out(&two.all[0], "refused");
        assert!(two.check().is_ok());
        two.leave_out(&two.all[1], "no such host");
        two.leave_out(&two.all[1], "no connection in time");
        let reason = two.check().unwrap_err();
        assert!(reason.starts_with("none of its 2 URLs can be reached: http://a can't"), "{reason}");
        assert!(reason.ends_with("no connection in time"), "{reason}");
        two.take_in(&two.all[0]);
        assert!(two.check().is_ok());
    }

    #[test]
    fn pauses_grow_until_a_request_is_delivered() {
        let targets = targets(&["http://a"]);
        let target = &targets.all[0];
        let mut pauses: Vec<_> = (0..40).map(|_| target.next_pause(None)).collect();
        assert!(pauses[0] >= FIRST_PAUSE.mul_f64(0.8) && pauses[0] <= FIRST_PAUSE.mul_f64(1.2), "{:?}", pauses[0]);
        assert!(pauses.windows(2).take(5).all(|two| two[0] < two[1]), "{pauses:?}");
        pauses.drain(..6);
        assert!(pauses.iter().all(|pause| *pause >= LONGEST_PAUSE.mul_f64(0.8)), "{pauses:?}");
        assert!(pauses.iter().all(|pause| *pause <= LONGEST_PAUSE.mul_f64(1.2)), "{pauses:?}");
        assert!(pauses.windows(2).any(|two| two[0] != two[1]), "{pauses:?}");
        target.delivered();
        assert!(target.next_pause(None) <= FIRST_PAUSE.mul_f64(1.2));
    }
}
