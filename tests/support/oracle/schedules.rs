//! Repeating jobs, by the rules alone.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use jobwright::admin::ScheduleInfo;
use jobwright::internal::engine::schedules::{FireOutcome, Firing, ScheduleQuery};
use jobwright::internal::engine::{AuditNote, Enqueue, Schedules};
use jobwright::{JobMessage, Result};

use super::Oracle;
use super::model::{JobTable, State};

#[async_trait]
impl Schedules for Oracle {
    async fn next_schedule(&self) -> Result<Option<Duration>> {
        let now = Timestamp::now();
        let state = self.lock();
        let next = state.schedules.values().filter(|one| !one.paused).filter_map(|one| one.next_at).min();
        Ok(next.map(|next| Duration::try_from(next.duration_since(now)).unwrap_or_default()))
    }

    async fn read_schedules(&self, which: ScheduleQuery<'_>) -> Result<(Timestamp, Vec<ScheduleInfo>)> {
        let now = Timestamp::now();
        let state = self.lock();
        let all = state.schedules.values().cloned();
        let found = match which {
            ScheduleQuery::Named(names) => all.filter(|one| names.contains(&one.spec.name)).collect(),
            ScheduleQuery::Page { after, limit } => {
                all.filter(|one| after.is_none_or(|after| one.spec.name.as_str() > after)).take(limit).collect()
            }
            ScheduleQuery::Due(limit) => {
                let is_due = |one: &ScheduleInfo| !one.paused && one.next_at.is_some_and(|next| next <= now);
                let mut due: Vec<_> = all.filter(is_due).collect();
                due.sort_by_key(|one| one.next_at);
                due.truncate(limit);
                due
            }
        };
        Ok((now, found))
    }

    async fn write_schedule(
        &self,
        schedule: &ScheduleInfo,
        seen: Option<i64>,
        _: Option<&AuditNote<'_>>,
    ) -> Result<bool> {
        let mut state = self.lock();
        let name = schedule.spec.name.clone();
        let current = state.schedules.get(&name).map(|one| one.version);
        if current == seen {
            state.schedules.insert(name, ScheduleInfo { version: seen.map_or(0, |seen| seen + 1), ..schedule.clone() });
        }
        Ok(current == seen)
    }

    async fn delete_schedules(&self, names: &[String], _: Option<&AuditNote<'_>>) -> Result<u64> {
        let mut state = self.lock();
        Ok(names.iter().filter(|name| state.schedules.remove(*name).is_some()).count() as u64)
    }

    async fn send_of_schedule(&self, jobs: &[JobMessage], note: Option<&mut AuditNote<'_>>) -> Result<u64> {
        assert!(note.is_none(), "the oracle keeps no audit");
        Ok(self.insert(jobs, None).await?.rows)
    }

    async fn fire_schedules(&self, firings: &[Firing]) -> Result<Vec<FireOutcome>> {
        let mut state = self.lock();
        Ok(firings.iter().map(|firing| state.fire(firing)).collect())
    }
}

impl State {
    fn fire(&mut self, firing: &Firing) -> FireOutcome {
        let seen = (firing.seen, Some(firing.due));
        let unchanged = self.schedules.get(&firing.name).is_some_and(|one| (one.version, one.next_at) == seen);
        if !unchanged {
            return FireOutcome::Lost;
        }
        let over = |place: &JobTable| matches!(place, JobTable::Dead { .. });
        let alive = firing.unless_alive.and_then(|id| self.by_id(id)).is_some_and(|row| !over(&row.location));
        if !alive {
            let (rows, _) = self.prepare(&firing.jobs, None).unwrap();
            self.jobs.extend(rows.into_iter().map(|row| (row.seq, row)));
        }
        let one = self.schedules.get_mut(&firing.name).unwrap();
        one.version += 1;
        if alive {
            one.next_at = firing.next_if_left_out;
            return FireOutcome::Skipped;
        }
        one.next_at = firing.next_at;
        one.fired += firing.jobs.len() as u64;
        if let Some(last) = firing.jobs.last() {
            (one.last_at, one.last_job) = (firing.last_at, Some(last.id));
        }
        FireOutcome::Sent
    }
}
