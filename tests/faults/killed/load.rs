//! The jobs: of all sorts, chosen at random, from a sender that is not killed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jobwright::Store;
use jobwright::admin::Admin;
use jobwright::admin::{Rule, Scope};
use jobwright::{Job, JobId, MessageServices, Misfire, NewJob, NewSchedule, Overlap, RetryPolicy, Schedule, Unique};
use serde::{Deserialize, Serialize};

use super::Rules;
use super::event_log::Book;
use crate::support::seeded_random::Chance;

/// The sender pauses while this many jobs wait: jobs held by a stopped process must not pile up.
const BACKLOG: i64 = 150;

/// How often each schedule fires. `every` fires all occurrences, `guard` none while the job before is not over.
pub(super) const EVERY: (&str, i64) = ("every", 250_000);
pub(super) const GUARD: (&str, i64) = ("guard", 200_000);

/// The rules, and so the limits that must never be exceeded.
pub(super) const LIMITS: [(Scope, &str, u32); 5] = [
    (Scope::Queue, "narrow", 4),
    (Scope::Kind, "rare", 2),
    (Scope::Tenant, "*", 3),
    (Scope::Key, "*", 2),
    (Scope::Key, "k0", 1),
];

/// The task of a job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Work {
    /// Its number among the jobs of the sender.
    pub(super) n: Option<u64>,
    /// Its duration in milliseconds, before it opens its transaction and within that.
    pub(super) takes: u64,
    pub(super) lingers: u64,
    /// How long it blocks its thread at the end. A process stopped then can't learn that its lease is over before it commits: only the database can
    /// refuse that.
    pub(super) blocks: u64,
    /// Attempts that fail.
    pub(super) fails: u32,
    /// Sends another job.
    pub(super) sends: bool,
}

/// What a handler logs about its job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) seq: i64,
    pub(super) created_at: i64,
    pub(super) kind: String,
    pub(super) queue: String,
    pub(super) n: Option<u64>,
    pub(super) group: Option<String>,
    pub(super) ordered: bool,
    pub(super) tenant: Option<String>,
    pub(super) key: Option<String>,
    /// Its unique key, and whether it holds that only until it starts.
    pub(super) unique: Option<(String, bool)>,
    /// The schedule that sent it, and for when.
    pub(super) schedule: Option<(String, i64)>,
}

impl About {
    pub(super) fn of(job: &Job) -> Self {
        let work: Work = job.payload.decode().unwrap();
        let schedule = job.headers.get("schedule").map(|name| {
            let at: Timestamp = job.headers["scheduledAt"].parse().unwrap();
            (name.clone(), at.as_microsecond())
        });
        Self {
            seq: job.seq,
            created_at: job.created_at.as_microsecond(),
            kind: job.kind.clone(),
            queue: job.queue.clone(),
            n: work.n,
            group: job.options.group.clone(),
            ordered: job.options.ordered,
            tenant: job.options.tenant.clone(),
            key: job.options.limit_key.clone(),
            unique: job.options.unique.as_ref().map(|term| (term.key.clone(), term.hold.as_str() == "waiting")),
            schedule,
        }
    }
}

/// Formats an id as in the event log.
pub(super) fn hex(id: JobId) -> String {
    id.as_uuid().simple().to_string()
}

/// Returns the job that a handler sends. It has no group, because the order of two senders is undefined.
pub(super) fn follow_up(sender: &Job) -> NewJob {
    let work = Work { takes: 3, ..Work::default() };
    let job = NewJob::json("work", &work).queue(&sender.queue).max_attempts(1000);
    match &sender.options.tenant {
        Some(tenant) => job.tenant(tenant),
        None => job,
    }
}

pub(super) async fn put_rules(admin: &Admin) {
    for (scope, name, running) in LIMITS {
        admin.put_rule(&Rule::new(scope, name).running(running)).await.unwrap();
    }
}

pub(super) async fn put_schedules<S: Store>(messages: &MessageServices<S>) {
    for ((name, period), misfire, overlap) in
        [(EVERY, Misfire::All, Overlap::Allow), (GUARD, Misfire::Once, Overlap::Forbid)]
    {
        let when = Schedule::new(&format!("{}ms", period / 1000)).unwrap();
        let job = NewJob::json("work", &Work { takes: 5, ..Work::default() }).max_attempts(1000);
        let schedule = NewSchedule::new(name, when, job).misfire(misfire).overlap(overlap);
        messages.schedules().put(schedule).await.unwrap();
    }
}

/// Pauses the limited queue, and resumes it with another limit that is no higher: rules change while processes die.
pub(super) async fn change_rules(admin: &Admin, mut chance: Chance, end: Instant) {
    let (scope, name, most) = LIMITS[0];
    while Instant::now() < end {
        tokio::time::sleep(chance.millis(500, 2500)).await;
        admin.put_rule(&Rule::new(scope, name).running(most).paused(true)).await.unwrap();
        tokio::time::sleep(chance.millis(50, 500)).await;
        let running = 1 + chance.below(most as usize) as u32;
        admin.put_rule(&Rule::new(scope, name).running(running)).await.unwrap();
    }
    admin.put_rule(&Rule::new(scope, name).running(most)).await.unwrap();
}

/// The jobs that were sent, and whether each takes effect in a transaction.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub(super) jobs: BTreeMap<String, bool>,
    /// Duplicates, because another job held the key.
    pub(super) kept_out: u64,
}

/// Sends until `end`.
pub(super) async fn send<W: Book>(
    messages: &MessageServices<W::Store>,
    pen: &W::Pen,
    (mut chance, rules): (Chance, Rules),
    end: Instant,
) -> Sent {
    let mut sent = Sent::default();
    let mut n = 0;
    while Instant::now() < end {
        if W::left(pen).await.0 >= BACKLOG {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        }
        let mut cx = messages.begin();
        for _ in 0..=chance.below(6) {
            n += 1;
            let (job, unique) = pick(&mut chance, n, rules);
            let (id, kind) = (job.job_id(), job.kind() == "work" || job.kind() == "rare");
            if unique {
                // Sent alone: only then is it known whether it was a duplicate.
                if messages.send(job).await.unwrap() == id {
                    sent.jobs.insert(hex(id), kind);
                } else {
                    sent.kept_out += 1;
                }
            } else {
                cx.send(job).unwrap();
                sent.jobs.insert(hex(id), kind);
            }
        }
        cx.commit().await.unwrap();
        tokio::time::sleep(chance.millis(5, 40)).await;
    }
    sent
}

/// Returns a random job, and whether it has a unique key.
fn pick(chance: &mut Chance, n: u64, rules: Rules) -> (NewJob, bool) {
    let mut one_in = |many: usize| chance.below(many) == 0;
    let work = Work {
        n: Some(n),
        fails: u32::from(one_in(12)),
        sends: one_in(10),
        lingers: if one_in(5) { 10 } else { 0 },
        blocks: if one_in(5) { 100 } else { 0 },
        takes: if one_in(20) { 60 } else { 3 },
    };
    let kind = match chance.below(8) {
        0 => "rare",
        1 => "bare",
        2..=6 if rules == Rules::None => "bare",
        _ => "work",
    };
    let queue = chance.pick(&["default", "default", "default", "narrow"]);
    let retry = RetryPolicy::Fixed(Duration::from_millis(30));
    let mut job = NewJob::json(kind, &work).queue(queue).max_attempts(1000).retry(retry);
    let mut unique = false;
    match chance.below(12) {
        0..=2 => job = job.exclusive(format!("g{}", chance.below(8))),
        3..=4 => job = job.ordered(format!("o{}", chance.below(5))),
        5..=6 => {
            unique = true;
            let key = chance.below(12);
            let term = Unique::key(format!("u{key}"));
            job = job.unique(if key.is_multiple_of(3) { term.while_waiting() } else { term });
        }
        7 => job = job.delay(chance.millis(50, 800)),
        _ => job = job.priority(chance.below(3) as i16 - 1),
    }
    if chance.below(5) == 0 {
        job = job.tenant(format!("t{}", chance.below(3)));
    }
    if chance.below(6) == 0 {
        job = job.limit_key(format!("k{}", chance.below(3)));
    }
    (job, unique)
}
