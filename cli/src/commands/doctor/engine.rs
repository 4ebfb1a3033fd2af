//! Checks the data beside the jobs: permits, keys and schedules.

use std::time::Duration;

use jobwright::admin::{HeldUp, JobFilter, NodeStatus, Page, QueueStatus, Reason, StatusReport, TimeRange};
use jobwright::headers::{EVENT_QUEUE, REPLY_QUEUE};

use super::Finding;
use crate::commands::Messages;
use crate::commands::slow_notice::with_slow_notice;
use crate::config::Settings;
use crate::output::counted;

/// A shorter delay may be work in progress.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two checks of data that changes all the time: a fault seen in both is not just a momentary state.
const PAUSE: Duration = Duration::from_secs(1);
/// The age from which a job should not be next and free.
const LATE: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);
/// Longer than a worker takes by default to poll its queues when nothing wakes it.
const POLLED: Duration = Duration::from_secs(6);
/// How many are named.
const NAMED: usize = 3;
/// How many overdue schedules are read.
const SCHEDULES: usize = 100;

/// How many waiting jobs are sorted by what keeps them.
const SORTED: u64 = 100_000;
/// Replies and events that are counted in each queue.
const OUTBOUND: usize = 100;

const SELECT: &str = "this check needs `select` on all tables of the schema";

/// `status`: the report that the check of the nodes has read, unless it could not.
pub(super) async fn check(settings: &Settings, messages: &Messages, status: Option<&StatusReport>) -> Vec<Finding> {
    let checks = [
        permits(settings, messages).await,
        with_slow_notice(settings, admission(messages)).await,
        with_slow_notice(settings, due(messages)).await,
        with_slow_notice(settings, schedules(messages)).await,
        with_slow_notice(settings, kept(messages)).await,
        with_slow_notice(settings, ahead(messages)).await,
        with_slow_notice(settings, unreadable(messages)).await,
        with_slow_notice(settings, waiting(messages)).await,
    ];
    let mut checks = Vec::from(checks);
    // Otherwise the check of the nodes has said why it could not be read.
    if let Some(status) = status {
        checks.push(with_slow_notice(settings, outbound(messages, &status.queues)).await);
        checks.push(Ok(tasks(&status.nodes)));
        checks.push(Ok(left_alone(&status.nodes)));
    }
    checks.into_iter().map(|check| check.unwrap_or_else(|(name, error)| Finding::error(name, error, SELECT))).collect()
}

type Checked = Result<Finding, (&'static str, jobwright::Error)>;

/// Whether permits for groups and limits are consistent, and jobs waiting for them will be started.
async fn permits(settings: &Settings, messages: &Messages) -> Checked {
    const CHECK: &str = "permits";
    let look =
        async || with_slow_notice(settings, messages.admin().sampled_permit_faults()).await.map_err(|e| (CHECK, e));
    let first = look().await?;
    let (mut faults, part) = (first.found, part(first.complete));
    if !faults.is_empty() {
        tokio::time::sleep(PAUSE).await;
        let again = look().await?.found;
        faults.retain(|fault| again.contains(fault));
    }
    if faults.is_empty() {
        return Ok(Finding::ok(
            CHECK,
            format!(
                "no permit belongs to a job or node that no longer exists, and no job waits for one that is free{part}"
            ),
        ));
    }
    let todo = "the tables may have been edited by hand, truncated, or restored one by one. Within two minutes, a running worker takes back the \
                permits of jobs and nodes that no longer exist, and unblocks jobs that wait for nothing: start `jobwright worker` if none is \
                running. `jobs suspend` and `jobs resume` send a job through admission again";
    Ok(Finding::warn(CHECK, some(&faults, "; ") + part, todo))
}

/// Returns what to add to a finding if not everything was looked at.
fn part(complete: bool) -> &'static str {
    if complete { "" } else { " (only a part of large tables was checked)" }
}

/// Whether an executor admits the jobs that groups and limits block.
async fn admission(messages: &Messages) -> Checked {
    const CHECK: &str = "admission";
    let overdue = messages.admin().overdue_unblocks().await.map_err(|error| (CHECK, error))?;
    if overdue.longest < PATIENCE {
        return Ok(Finding::ok(CHECK, "no unblock is overdue"));
    }
    let found = format!(
        "pending unblocks: {}, the oldest for {}; no executor runs admission, so jobs of groups and limits do not start",
        overdue.unblocks,
        ago(overdue.longest)
    );
    Ok(Finding::warn(CHECK, found, "start `jobwright worker`; if one is running, its log says why it admits nothing"))
}

/// Whether an executor moves timers, ends times to live, and takes back the jobs of external workers that are late.
async fn due(messages: &Messages) -> Checked {
    const CHECK: &str = "due work";
    let overdue = messages.admin().overdue_work().await.map_err(|error| (CHECK, error))?;
    let sorts = [
        ("timers", overdue.timers),
        ("times to live", overdue.expiry),
        ("leases of external workers", overdue.external),
    ];
    let late: Vec<String> = sorts
        .into_iter()
        .filter_map(|(name, late)| Some((name, late.filter(|late| *late >= PATIENCE)?)))
        .map(|(name, late)| format!("{name} have been due for {}", ago(late)))
        .collect();
    if late.is_empty() {
        return Ok(Finding::ok(CHECK, "nothing is overdue"));
    }
    let todo = "start `jobwright worker`; if one is running, \"tasks of nodes\" and its log say why it does not act on them (a lock, a missing \
                right, a trigger?)";
    Ok(Finding::warn(CHECK, some(&late, ", "), todo))
}

/// Whether an executor fires schedules.
async fn schedules(messages: &Messages) -> Checked {
    const CHECK: &str = "schedules";
    let due = messages.admin().schedules().overdue(SCHEDULES).await.map_err(|error| (CHECK, error))?;
    let overdue: Vec<String> = due
        .iter()
        .filter(|(_, late)| *late >= PATIENCE)
        .map(|(one, late)| format!("{} has been due for {}", one.spec.name, ago(*late)))
        .collect();
    if overdue.is_empty() {
        return Ok(Finding::ok(CHECK, "none is overdue"));
    }
    let todo = "start `jobwright worker`; if one is running, its log says why it fires nothing (an unknown time zone?)";
    Ok(Finding::warn(CHECK, some(&overdue, ", "), todo))
}

/// Whether schedules and rules can be read.
async fn kept(messages: &Messages) -> Checked {
    const CHECK: &str = "schedules and rules";
    let failed = |error| (CHECK, error);
    let admin = messages.admin();
    let schedules = admin.schedule_faults().await.map_err(failed)?;
    let rules = admin.rule_faults().await.map_err(failed)?;
    let found: Vec<String> = schedules
        .iter()
        .map(|fault| format!("the schedule {}: {}", fault.name, fault.why))
        .chain(rules.iter().map(|fault| format!("the rule {}: {}", fault.name, fault.why)))
        .collect();
    if found.is_empty() {
        return Ok(Finding::ok(CHECK, "all can be read"));
    }
    let todo = "replace them (`jobwright schedules put`, `jobwright queues limit`), or delete them: an unreadable schedule sends nothing, and only \
                the readable part of a rule applies. A time zone that is unknown here may be missing from this machine's time zone database";
    Ok(Finding::warn(CHECK, some(&found, "; "), todo))
}

/// Whether a clock was ahead when something was written: the affected jobs are late, or look younger than they are.
async fn ahead(messages: &Messages) -> Checked {
    const CHECK: &str = "ahead of the clock";
    let failed = |error| (CHECK, error);
    let admin = messages.admin();
    let skewed = admin.sampled_clock_skew().await.map_err(failed)?;
    let part = part(skewed.complete);
    let mut found: Vec<String> = skewed
        .found
        .iter()
        .map(|ahead| {
            let rows = if ahead.rows == 1 { "row" } else { "rows" };
            format!("{} ({} {rows}, up to {})", ahead.what, ahead.rows, ago(ahead.farthest))
        })
        .collect();
    let schedules = admin.schedules().clock_skew().await.map_err(failed)?;
    found.extend(schedules.iter().map(|(schedule, wait)| {
        format!("the schedule {} (next in {}, and there is an occurrence before)", schedule.spec.name, ago(*wait))
    }));
    if found.is_empty() {
        return Ok(Finding::ok(CHECK, format!("nothing was written by a clock that was ahead{part}")));
    }
    let todo = "check the time synchronisation of the database's host. If its clock is behind now, nothing else is wrong; if it was ahead and is \
                right again, a running worker repairs timestamps that delay jobs (after its start, when it sees the clock set, and every ten \
                minutes). Timers that a sender asked for stay: `jobwright jobs list --state timer`, `jobs change ID --at …`";
    Ok(Finding::warn(CHECK, some(&found, "; ") + part, todo))
}

/// Whether there are jobs that no executor could read.
async fn unreadable(messages: &Messages) -> Checked {
    const CHECK: &str = "unreadable jobs";
    let found = messages.admin().unreadable_jobs().await.map_err(|error| (CHECK, error))?;
    let (count, Some(example)) = (found.jobs, found.example) else {
        let among = if found.jobs.is_exact() { "" } else { " among the newest dead letters" };
        return Ok(Finding::ok(CHECK, format!("none{among}")));
    };
    let todo = "the rows were written by hand, or a payload is too large or too complex to be read: look with `jobwright jobs show`, correct the \
                program that sends it, and send it again; `jobwright jobs list --state dead --error \"can't be read: \"` lists them";
    Ok(Finding::warn(CHECK, format!("dead letters that can't be read: {count}, for instance {example}"), todo))
}

/// Whether living nodes say that a task of theirs fails again and again.
fn tasks(nodes: &[NodeStatus]) -> Finding {
    const CHECK: &str = "tasks of nodes";
    let alive = nodes.iter().filter(|node| !node.dead && node.lease_seconds_left > 0.0);
    let failing = alive.flat_map(|node| node.failing.iter().map(move |task| (node, task)));
    let failing: Vec<String> = failing
        .filter(|(_, task)| !task.lacks_consumers())
        .map(|(node, task)| format!("{} (node {}): {task}", node.name, node.id))
        .collect();
    if failing.is_empty() {
        return Finding::ok(CHECK, "none has failed for long");
    }
    let todo = "fix the cause that the error names; the node tries again by itself. `jobwright nodes list` shows since when the task fails";
    Finding::warn(CHECK, some(&failing, "; "), todo)
}

/// Whether living nodes say that they can't run a kind.
fn left_alone(nodes: &[NodeStatus]) -> Finding {
    const CHECK: &str = "kinds left alone";
    let alive = nodes.iter().filter(|node| !node.dead && node.lease_seconds_left > 0.0);
    let kinds = alive.flat_map(|node| node.left_alone.iter().map(move |(kind, why)| (node, kind, why)));
    let kinds: Vec<String> =
        kinds.map(|(node, kind, why)| format!("{kind:?} by {} (node {}): {why}", node.name, node.id)).collect();
    if kinds.is_empty() {
        return Finding::ok(CHECK, "every node can run its kinds");
    }
    let todo = "fix the cause that the node names: start the server, correct the URL, or install the program. The node tries again by itself, and \
                its jobs lose no attempt";
    Finding::warn(CHECK, some(&kinds, "; "), todo)
}

/// Whether replies and events leave.
async fn outbound(messages: &Messages, queues: &[QueueStatus]) -> Checked {
    const CHECK: &str = "replies and events";
    let before = jiff::Timestamp::now() - PATIENCE;
    let (mut stuck, mut example) = (0, None);
    // A list of a queue that has no jobs could look through all others.
    for queue in queues.iter().filter(|queue| [REPLY_QUEUE, EVENT_QUEUE].contains(&queue.queue.as_str())) {
        let states = queue.counts().into_iter().filter(|(_, count)| *count != 0);
        let created = TimeRange { until: Some(before), ..TimeRange::default() };
        let mut filter = JobFilter::default().queue(&*queue.queue).created(created);
        filter.states = Some(states.filter_map(|(state, _)| state.parse().ok()).collect());
        let page = Page::new(OUTBOUND);
        let found = messages.admin().list(&filter, &page).await.map_err(|error| (CHECK, error))?;
        stuck += found.len();
        example = example.or_else(|| found.first().map(|job| job.id));
    }
    let Some(example) = example else { return Ok(Finding::ok(CHECK, "none waits for long")) };
    let more = if stuck >= OUTBOUND { " or more" } else { "" };
    let found = format!("{stuck}{more} have been undelivered for more than {}, for instance {example}", ago(PATIENCE));
    let todo = "check that the broker is up and that a worker reaches it. One that is refused again and again, or is a dead letter, names a queue \
                that it can't be sent to: `jobwright jobs show`, correct the program that asks for it, then `jobwright jobs cancel` or `delete`";
    Ok(Finding::warn(CHECK, found, todo))
}

/// Whether something keeps jobs from running that stays until a person acts, or jobs wait although nothing is in their way.
async fn waiting(messages: &Messages) -> Checked {
    const CHECK: &str = "waiting jobs";
    let failed = |error| (CHECK, error);
    let admin = messages.admin();
    let all = admin.why_waiting(None, None).await.map_err(failed)?;
    let part = if all.iter().map(|held| held.jobs).sum::<u64>() < SORTED { "" } else { " (of the first 100,000 jobs)" };
    let (lasting, free): (Vec<_>, Vec<_>) = all.into_iter().partition(|held| held.example.lasts());
    let mut found: Vec<(HeldUp, Reason)> = Vec::new();
    for held in lasting {
        found.extend(held.example.reasons.iter().find(|reason| reason.lasts()).cloned().map(|reason| (held, reason)));
    }
    for (held, reason) in not_taken(messages, free).await.map_err(failed)? {
        found.push((held, reason));
    }
    let Some((first, reason)) = found.first() else {
        return Ok(Finding::ok(CHECK, "every reason to wait ends by itself"));
    };
    let log = || "a running worker's log says why it does not take them".to_owned();
    let todo = reason.remedy(first.example.id).unwrap_or_else(log);
    let described: Vec<String> = found
        .iter()
        .map(|(held, reason)| {
            let jobs = counted(held.jobs, "job");
            format!("{jobs} (for instance {}): {reason}", held.example.id)
        })
        .collect();
    Ok(Finding::warn(CHECK, some(&described, "; ") + part, format!("{todo}; `jobwright why` lists all")))
}

/// Returns the jobs that nothing keeps, and that no worker has taken between two looks. They were sent a while ago: a worker that nobody wakes polls
/// sooner.
async fn not_taken(messages: &Messages, free: Vec<HeldUp>) -> jobwright::Result<Vec<(HeldUp, Reason)>> {
    let admin = messages.admin();
    let mut late = Vec::new();
    for held in free {
        if let [reason @ (Reason::Next | Reason::Admission)] = &held.example.reasons[..]
            && let Some(job) = admin.show(held.example.id).await?
            && jiff::Timestamp::now().duration_since(job.summary.created_at) >= LATE
        {
            let reason = reason.clone();
            late.push((held, reason));
        }
    }
    if !late.is_empty() {
        tokio::time::sleep(POLLED).await;
    }
    let mut left = Vec::new();
    for (held, reason) in late {
        if admin.why(held.example.id).await?.is_some_and(|why| why.reasons == [reason.clone()]) {
            left.push((held, reason));
        }
    }
    Ok(left)
}

/// Lists the first few, and how many there are.
fn some(all: &[String], between: &str) -> String {
    let more = all.len().saturating_sub(NAMED);
    let named = all.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(between);
    if more == 0 { named } else { format!("{named}{between}and {more} more") }
}

fn ago(time: Duration) -> String {
    format!("{:?}", Duration::from_secs(time.as_secs()))
}
