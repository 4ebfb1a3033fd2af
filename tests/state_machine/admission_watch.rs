//! The effect of the clock and of operators on a history's jobs, in minutes: which may not start yet, or not any more, and how many may start.

use std::collections::{BTreeMap, BTreeSet};

use jobwright::JobId;
use jobwright::admin::{JobFilter, JobState, JobSummary, Scope};

use crate::state_machine::admission_ops::{MUCH_LATER, Message, PerMinutes};
use crate::state_machine::player::Outcome;

type Key = (Scope, &'static str);

#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The present. Each step takes a little time, so what is due now is already past.
    pub(crate) now: u32,
    /// The jobs admitted at the last check.
    pub(crate) admitted: BTreeSet<JobId>,
    due: BTreeMap<JobId, u32>,
    ttl: BTreeMap<JobId, u32>,
    expires: BTreeMap<JobId, u32>,
    suspended: BTreeSet<JobId>,
    /// Rates, with the jobs admitted under each, and when.
    rates: BTreeMap<Key, (PerMinutes, Vec<u32>)>,
    /// Jobs that started in this step.
    starts: Vec<JobId>,
    /// Whether expired jobs became dead letters in this step.
    swept: bool,
}

/// Whether a time to live can end in this state.
fn waits(state: JobState) -> bool {
    matches!(state, JobState::Waiting | JobState::Blocked | JobState::Timer)
}

fn meant<'a>(rows: &'a [JobSummary], filter: &'a JobFilter) -> impl Iterator<Item = &'a JobSummary> {
    rows.iter().filter(|row| filter.ids.as_ref().is_none_or(|ids| ids.contains(&row.id)))
}

impl Watch {
    pub(crate) fn sent(&mut self, id: JobId, message: &Message) {
        if message.later {
            self.later(&[id]);
        }
        if let Some(ttl) = message.ttl {
            self.ttl.insert(id, ttl);
            self.expires.insert(id, self.now + ttl);
        }
    }

    pub(crate) fn later(&mut self, ids: &[JobId]) {
        self.due.extend(ids.iter().map(|id| (*id, self.now + MUCH_LATER)));
    }

    pub(crate) fn started(&mut self, ids: impl IntoIterator<Item = JobId>) {
        self.starts.extend(ids);
    }

    pub(crate) fn requeued(&mut self, before: &[JobSummary]) {
        for row in before.iter().filter(|row| row.state == JobState::Dead) {
            self.due.remove(&row.id);
            if let Some(ttl) = self.ttl.get(&row.id) {
                self.expires.insert(row.id, self.now + ttl);
            }
        }
    }

    pub(crate) fn suspended(&mut self, before: &[JobSummary], filter: &JobFilter) {
        self.suspended.extend(meant(before, filter).filter(|row| waits(row.state)).map(|row| row.id));
    }

    pub(crate) fn resumed(&mut self) {
        self.suspended.clear();
    }

    pub(crate) fn hurried(&mut self, before: &[JobSummary]) {
        let hurried = |row: &&JobSummary| matches!(row.state, JobState::Timer | JobState::Suspended);
        for row in before.iter().filter(hurried) {
            self.due.remove(&row.id);
        }
        self.suspended.clear();
    }

    pub(crate) fn put_off(&mut self, before: &[JobSummary], filter: &JobFilter, minutes: u32) {
        for row in meant(before, filter).filter(|row| waits(row.state) || row.state == JobState::Suspended) {
            self.due.insert(row.id, self.now + minutes);
        }
    }

    pub(crate) fn expired(&mut self) {
        self.swept = true;
    }

    pub(crate) fn rate(&self, key: Key) -> Option<PerMinutes> {
        self.rates.get(&key).map(|(rate, _)| *rate)
    }

    /// Records that a rule was set. Starts under a rate count under the next one, as far back as the first one kept them.
    pub(crate) fn rule(&mut self, key: Key, rate: Option<PerMinutes>) {
        let old = self.rates.remove(&key);
        if let Some(rate) = rate {
            let log = old.filter(|(old, _)| old.1 >= rate.1).map(|(_, log)| log).unwrap_or_default();
            self.rates.insert(key, (rate, log));
        }
    }

    /// Whether no rate delays any start any more.
    pub(crate) fn rates_are_over(&self) -> bool {
        self.rates.is_empty()
    }

    /// Records that this many were admitted now.
    ///
    /// # Errors
    /// If, with those before them, they are more than the rate allows.
    pub(crate) fn count(&mut self, key: Key, admitted: usize) -> Outcome<()> {
        let now = self.now;
        let Some(((starts, minutes), log)) = self.rates.get_mut(&key) else { return Ok(()) };
        log.extend(std::iter::repeat_n(now, admitted));
        let within = log.iter().filter(|at| now - **at < *minutes).count();
        if admitted > 0 && within > *starts as usize {
            return Err(format!("{within} started under {key:?} within {minutes} minutes, which allow {starts}"));
        }
        Ok(())
    }

    /// Checks what a step changed.
    pub(crate) fn look(&mut self, before: &[JobSummary], after: &[JobSummary]) -> Outcome<()> {
        let now = self.now;
        let late = |id: &JobId| self.expires.get(id).is_some_and(|expires| now >= *expires);
        for id in std::mem::take(&mut self.starts) {
            if late(&id) {
                return Err(format!("{id} started, and had expired"));
            }
            if let Some(due) = self.due.get(&id).filter(|due| **due > now) {
                return Err(format!("{id} started at {now}, and is due at {due}"));
            }
            if self.suspended.contains(&id) {
                return Err(format!("{id} started, and was suspended"));
            }
        }
        for row in after {
            if self.suspended.contains(&row.id) != (row.state == JobState::Suspended) {
                return Err(format!("suspended: {}, but {row:?}", self.suspended.contains(&row.id)));
            }
        }
        if std::mem::take(&mut self.swept) {
            let dead = |rows: &[JobSummary]| -> BTreeSet<JobId> {
                rows.iter().filter(|row| row.state == JobState::Dead).map(|row| row.id).collect()
            };
            let mut expected = dead(before);
            expected.extend(before.iter().filter(|row| waits(row.state) && late(&row.id)).map(|row| row.id));
            if dead(after) != expected {
                return Err(format!("dead are {:?}, and should be {expected:?}", dead(after)));
            }
        }
        Ok(())
    }
}
