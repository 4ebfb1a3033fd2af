//! Dead letters: their errors, and how they run again.

use jiff::Timestamp;
use jobwright::admin::{AffectedJobs, DeadLetterGroup, DeadLetterGroups, JobFilter, JobState, RetryOptions};
use jobwright::internal::engine::normalise;

use super::model::{JobTable, State, after};

impl State {
    pub(super) fn retry(&mut self, filter: &JobFilter, options: &RetryOptions) -> AffectedJobs {
        let (mut chosen, _) = self.select(filter, &[JobState::Timer, JobState::Dead]);
        chosen.truncate(options.limit.map_or(usize::MAX, |limit| limit as usize));
        let (now, total) = (Timestamp::now(), chosen.len() as u32);
        let mut affected = AffectedJobs::default();
        for (place, seq) in chosen.into_iter().enumerate() {
            let row = self.jobs.get_mut(&seq).unwrap();
            let state = row.state();
            *affected.0.entry(state).or_default() += 1;
            if options.dry_run {
                continue;
            }
            if state == JobState::Dead {
                row.attempt = 0;
            }
            let due = after(now, options.spread * place as u32 / total);
            row.location = match row.location {
                _ if options.spread.is_zero() => JobTable::Waiting,
                JobTable::Timer { due: before } => JobTable::Timer { due: due.min(before) },
                _ => JobTable::Timer { due },
            };
        }
        affected
    }

    pub(super) fn dead_letter_groups(&self, filter: &JobFilter, newest: usize, limit: usize) -> DeadLetterGroups {
        let (mut chosen, _) = self.select(filter, &[JobState::Dead]);
        let died = |seq| match self.jobs[&seq].location {
            JobTable::Dead { at, .. } => Some(at),
            _ => None,
        };
        chosen.sort_by_key(|seq| std::cmp::Reverse(died(*seq)));
        chosen.truncate(newest);
        let scanned = chosen.len() as u64;
        let mut found = DeadLetterGroups { scanned, more: chosen.len() >= newest, ..DeadLetterGroups::default() };
        for seq in chosen {
            let row = &self.jobs[&seq];
            let JobTable::Dead { at, reason } = &row.location else { continue };
            let (kind, queue, error) = (&row.message.kind, &row.message.queue, normalise(reason));
            let known = found
                .groups
                .iter_mut()
                .find(|group| (&group.kind, &group.queue, &group.error) == (kind, queue, &error));
            match known {
                Some(group) => {
                    group.count += 1;
                    group.first = group.first.min(*at);
                    if *at > group.last {
                        (group.last, group.example) = (*at, row.message.id);
                    }
                }
                None => found.groups.push(DeadLetterGroup {
                    kind: kind.clone(),
                    queue: queue.clone(),
                    error,
                    count: 1,
                    first: *at,
                    last: *at,
                    example: row.message.id,
                }),
            }
        }
        found.groups.sort_by_key(|group| (std::cmp::Reverse(group.count), std::cmp::Reverse(group.last)));
        found.groups.truncate(limit);
        found
    }
}
