//! Dead letters: what they died of, and how they run again.

use jiff::Timestamp;
use jobwright::store::{DeadGroup, DeadGroups, JobFilter, JobState, RetryOptions, Steered, normalise};

use super::model::{Place, State, after};

impl State {
    pub(super) fn retry(&mut self, filter: &JobFilter, options: &RetryOptions) -> Steered {
        let (mut chosen, _) = self.select(filter, &[JobState::Timer, JobState::Dead]);
        chosen.truncate(options.limit.map_or(usize::MAX, |limit| limit as usize));
        let (now, total) = (Timestamp::now(), chosen.len() as u32);
        let mut steered = Steered::default();
        for (place, seq) in chosen.into_iter().enumerate() {
            let row = self.jobs.get_mut(&seq).unwrap();
            let state = row.state();
            *steered.0.entry(state).or_default() += 1;
            if options.dry_run {
                continue;
            }
            if state == JobState::Dead {
                row.attempt = 0;
            }
            let due = after(now, options.spread * place as u32 / total);
            row.place = match row.place {
                _ if options.spread.is_zero() => Place::Waiting,
                Place::Timer { due: before } => Place::Timer { due: due.min(before) },
                _ => Place::Timer { due },
            };
        }
        steered
    }

    pub(super) fn dead_groups(&self, filter: &JobFilter, limit: usize) -> DeadGroups {
        let (chosen, _) = self.select(filter, &[JobState::Dead]);
        let mut found = DeadGroups { scanned: chosen.len() as u64, ..DeadGroups::default() };
        for seq in chosen {
            let row = &self.jobs[&seq];
            let Place::Dead { at, reason } = &row.place else { continue };
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
                None => found.groups.push(DeadGroup {
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
