//! Claims the next jobs of groups with the statement that records the end of the jobs before them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::executor::metrics::stats::add;
use crate::executor::node::Node;
use crate::executor::node::claim_order::ClaimGuard;
use crate::executor::node::group_run::GroupRun;
use crate::executor::node::in_flight::GroupLease;
use crate::executor::node::lease::while_leased;
use crate::job::{ClaimNumber, Fence, Job, JobId};
use crate::store::{GroupClaim, GroupsClaimed};

/// The most jobs of groups claimed with one statement that also records outcomes.
const WANTED: usize = 2000;

/// A claim of the next jobs of groups that is about to be sent. While this lives, no reconciliation runs, and the node does not end.
struct NextClaim {
    claim: ClaimGuard,
    _worker: TaskTrackerToken,
}

/// Records that jobs are done, and claims the next ones of their groups, until `lost` is cancelled. Returns the jobs whose outcome was accepted.
/// Adds to `done` the jobs to be recorded without such a claim.
pub(crate) async fn complete_and_claim_next(
    node: &Arc<Node>,
    group_runs: Vec<(Vec<Fence>, GroupRun)>,
    done: &mut Vec<Fence>,
    lost: &CancellationToken,
) -> Vec<JobId> {
    let mut accepted = Vec::new();
    let mut group_runs = group_runs.into_iter().peekable();
    while group_runs.peek().is_some() {
        let mut wanted = 0;
        let mut part = Vec::new();
        while let Some((ended, group_run)) =
            group_runs.next_if(|(_, group_run)| part.is_empty() || wanted + group_run.group.wanted <= WANTED)
        {
            wanted += group_run.group.wanted;
            part.push((ended, group_run));
        }
        accepted.extend(complete_and_claim_chunk(node, part, done, lost).await);
    }
    accepted
}

async fn complete_and_claim_chunk(
    node: &Arc<Node>,
    mut group_runs: Vec<(Vec<Fence>, GroupRun)>,
    done: &mut Vec<Fence>,
    lost: &CancellationToken,
) -> Vec<JobId> {
    // Each job appears once: the result has ids only, which can't tell two claims of one job apart.
    let mut seen = HashSet::with_capacity(group_runs.len());
    for (ended, _) in &mut group_runs {
        done.extend(ended.extract_if(.., |fence| !seen.insert(fence.id)));
    }
    let fences: Vec<Fence> = group_runs.iter().flat_map(|(ended, _)| ended).copied().collect();
    if lost.is_cancelled() {
        // Retiring the node frees what it holds.
        done.extend(fences);
        return Vec::new();
    }
    let claim = begin_claim(node);
    if claim.is_none() {
        for (_, group_run) in &mut group_runs {
            group_run.end();
        }
    }
    // Known while the claim is under way, so that a later reconciliation does not take these leases for lost.
    let new = |group_run: &GroupRun| {
        (group_run.lease.is_none() && group_run.group.wanted > 0).then(|| node.in_flight.lease(group_run.group.lease))
    };
    let mut group_runs: Vec<(GroupRun, Option<GroupLease>)> = group_runs
        .into_iter()
        .map(|(_, group_run)| (new(&group_run), group_run))
        .map(|(new, group_run)| (group_run, new))
        .collect();
    let groups: Vec<GroupClaim> = group_runs.iter().map(|(group_run, _)| group_run.group.clone()).collect();
    // Without a claim the groups end here.
    let number = claim.as_ref().map_or(ClaimNumber::NONE, |next| next.claim.number());
    let began = Instant::now();
    let call = node.store.complete_and_claim_next(node.id, number, &fences, &groups, &node.chainable_kinds);
    let claimed = match while_leased(lost, call).await {
        Ok(claimed) => claimed,
        Err(error) => {
            // It may have claimed jobs. The finished ones are recorded again, which is refused if that had happened.
            tracing::debug!(%error, "the next jobs of groups could not be claimed with the end of those before them");
            node.claim_failed(&error);
            if error.kept_nothing() {
                group_runs.iter_mut().filter_map(|(_, new)| new.take()).for_each(GroupLease::free);
            }
            done.extend(fences);
            return Vec::new();
        }
    };
    node.counters.records.add(began.elapsed());
    let GroupsClaimed { accepted, next: jobs } = claimed;
    node.in_flight.add(jobs.iter());
    add(&node.counters.done, accepted.len());
    add(&node.counters.claimed, jobs.len());
    node.wakeup.job_waiters.notify(accepted.iter().copied());
    let taken: HashSet<JobId> = accepted.iter().copied().collect();
    let (gone, left): (Vec<Fence>, Vec<Fence>) = fences.into_iter().partition(|fence| taken.contains(&fence.id));
    done.extend(left);
    let freed = start(node, jobs, group_runs);
    // Groups whose next jobs were claimed are not free, and need no admission pass.
    node.in_flight.forget(gone.into_iter());
    if freed {
        node.in_flight.admission_due.notify_one();
    }
    accepted
}

/// Begins a claim. `None`: not now, because the node claims no more, leaves a kind alone, is reconciling, or a job is to run alone.
fn begin_claim(node: &Node) -> Option<NextClaim> {
    // The token comes first: a node that stops claiming then waits for the workers.
    let worker = node.workers.token();
    if node.stop_claiming.is_cancelled() || node.breakers.any_open() {
        return None;
    }
    // Not waited for: outcomes are more important.
    let claim = node.in_flight.try_begin_claim_beside()?;
    Some(NextClaim { claim, _worker: worker })
}

/// Starts the claimed jobs, those of each group in its slot. Frees the groups that have none. Returns whether there were such groups.
fn start(node: &Arc<Node>, jobs: Vec<Job>, group_runs: Vec<(GroupRun, Option<GroupLease>)>) -> bool {
    let mut of_groups: HashMap<String, Vec<Job>> = HashMap::with_capacity(group_runs.len());
    for job in jobs {
        if let Some(group) = job.options.group.clone() {
            of_groups.entry(group).or_default().push(job);
        }
    }
    let mut freed = false;
    for (mut group_run, new) in group_runs {
        match of_groups.remove(&group_run.group.group) {
            Some(jobs) => {
                if let Some(new) = new {
                    group_run.leased(new);
                }
                node.work.clone().start_group_run(node.clone(), jobs, group_run);
            }
            None => {
                freed = true;
                group_run.lease.into_iter().chain(new).for_each(GroupLease::free);
            }
        }
    }
    freed
}
