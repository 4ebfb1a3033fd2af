//! Jobs of groups, under a limit and with unique keys, sent 1,000 in a context and drained by the statements of an executor: admission passes, claims
//! of 500, removals, and completions that claim the next of a group.

use std::collections::HashMap;
use std::time::Duration;

use jobwright::admin::{Rule, Scope};
use jobwright::internal::engine;
use jobwright::internal::engine::{AdmitRequest, ClaimRequest, GroupClaim, JobStore, NodeInfo};
use jobwright::internal::{ClaimNumber, Fence};
use jobwright::{Job, JobId, MessageServices, NewJob, NodeId, Unique};

use super::Values;
use crate::Result;
use crate::cases::emptied;
use crate::load::{BATCH, KIND, Make, QUEUE, SEND_BATCH, grouped, job, left_in_queue, plain, raw_payload, send};
use crate::server::Counted;
use crate::setup::Bench;

const JOBS: usize = 10 * SEND_BATCH;

/// One kind of work, and the names of its counts: statements for 1,000 jobs, bytes of WAL and pages for a job.
struct Work {
    make: Make,
    rule: Option<Rule>,
    sent: [&'static str; 3],
    drained: [&'static str; 3],
}

/// The names of a kind of work.
macro_rules! names {
    ($what:literal) => {
        [
            concat!($what, ": statements for 1,000"),
            concat!($what, ": bytes of WAL for a job"),
            concat!($what, ": pages for a job"),
        ]
    };
}

fn unique(n: usize, job: NewJob) -> NewJob {
    job.unique(Unique::key(format!("order-{n}")))
}

pub(super) async fn run(bench: &Bench<'_>) -> Result<Values> {
    let work = [
        Work {
            make: grouped,
            rule: None,
            sent: names!("send, of 1,000 groups"),
            drained: names!("drain, of 1,000 groups"),
        },
        Work {
            make: plain,
            rule: Some(Rule::new(Scope::Kind, KIND).running(50)),
            sent: names!("send, 50 at a time"),
            drained: names!("drain, 50 at a time"),
        },
        Work { make: unique, rule: None, sent: names!("send, unique"), drained: names!("drain, unique") },
    ];
    let mut values = Values::new();
    for work in work {
        values.extend(count(bench, &work).await?);
    }
    Ok(values)
}

async fn count(bench: &Bench<'_>, work: &Work) -> Result<Values> {
    let schema = bench.schema().await?;
    let services = schema.services().await?;
    let jobs = services.engine();
    if let Some(rule) = &work.rule {
        services.admin().put_rule(rule).await?;
    }
    let payload = raw_payload()?;
    let node = jobs.register_node(&NodeInfo::new("counts", "here", 0, Duration::from_secs(300))).await?;
    // Makes connections, prepares statements, and begins pages and indexes.
    send(&services, SEND_BATCH, |n| (work.make)(n + JOBS, job(&payload))).await?;
    let mut claim = 0;
    drain(&services, node, &mut claim).await?;

    let before = bench.server.counted().await?;
    send(&services, JOBS, |n| (work.make)(n, job(&payload))).await?;
    let sent = bench.server.counted().await?;
    schema.vacuum(bench.server.client()).await?;
    let vacuumed = bench.server.counted().await?;
    let ended = drain(&services, node, &mut claim).await?;
    let drained = bench.server.counted().await?;
    if ended != JOBS {
        return Err(format!("{ended} of {JOBS} jobs were drained").into());
    }
    emptied(left_in_queue(bench.server.client(), &schema, QUEUE).await?)?;
    drop(services);
    bench.drop(schema).await?;
    let each = |names: [&'static str; 3], counted: Counted| {
        let jobs = JOBS as f64;
        names.into_iter().zip([counted.statements / jobs * 1000.0, counted.wal / jobs, counted.pages / jobs])
    };
    Ok(each(work.sent, sent.since(&before)).chain(each(work.drained, drained.since(&vacuumed))).collect())
}

/// Jobs of a group that are requested at a time: of as many groups as one claim takes, no more than a statement may want.
const MAX_RUN: usize = 4;

/// Returns how many jobs ended. `claim` is the number of the last claim: a claim with a number older than the last one counted takes nothing.
async fn drain(services: &MessageServices, node: NodeId, claim: &mut u32) -> Result<usize> {
    let jobs = services.engine();
    let (queues, kinds) = ([QUEUE.to_owned()], [KIND.to_owned()]);
    let round = AdmitRequest { limit: BATCH, queues: &queues, kinds: Some(&kinds), counting: true };
    let mut ended = 0;
    loop {
        let mut admitted = jobs.admit(&round).await?;
        while admitted.more {
            admitted = jobs.admit(&round).await?;
        }
        *claim += 1;
        // The jobs claimed before have ended.
        let counted = admitted.counted.iter().map(|(scope, name)| engine::Counted { scope: *scope, name, running: 0 });
        let counted: Vec<engine::Counted<'_>> = counted.collect();
        let request = ClaimRequest::new(node, ClaimNumber::new(*claim), QUEUE, BATCH).kinds(&kinds).counted(&counted);
        let mut claimed = jobs.claim(&request).await?.jobs;
        if claimed.is_empty() {
            return Ok(ended);
        }
        let mut turns = HashMap::new();
        while !claimed.is_empty() {
            ended += claimed.len();
            *claim += 1;
            claimed = end(&**jobs, node, ClaimNumber::new(*claim), &claimed, &mut turns, &kinds).await?;
        }
    }
}

/// Ends jobs as an executor does: completing jobs of groups claims the next ones.
async fn end(
    jobs: &dyn JobStore,
    node: NodeId,
    claim: ClaimNumber,
    claimed: &[Job],
    turns: &mut HashMap<String, GroupClaim>,
    kinds: &[String],
) -> Result<Vec<Job>> {
    let (mut fences, mut next) = (claimed.iter().map(Job::fence).collect::<Vec<Fence>>(), Vec::new());
    for job in claimed {
        let Some(group) = &job.options.group else { continue };
        let begin = || GroupClaim::after_job(group, &job.queue, job.id, JobId::new()).wanted(MAX_RUN);
        turns.entry(group.clone()).or_insert_with(begin);
    }
    if !turns.is_empty() {
        let asked: Vec<GroupClaim> = turns.drain().map(|(_, turn)| turn).collect();
        let handed = jobs.complete_and_claim_next(node, claim, &fences, &asked, kinds).await?;
        fences.retain(|fence| !handed.accepted.contains(&fence.id));
        next = handed.next;
        let mut asked: HashMap<String, GroupClaim> = asked.into_iter().map(|turn| (turn.group.clone(), turn)).collect();
        for job in &next {
            let Some((group, mut turn)) = job
                .options
                .group
                .as_ref()
                .and_then(|group| asked.remove_entry(group).or_else(|| turns.remove_entry(group)))
            else {
                continue;
            };
            turn.taken(job);
            turns.insert(group, turn);
        }
    }
    if !fences.is_empty() && jobs.complete(node, &fences).await?.len() != fences.len() {
        return Err("an end was refused".into());
    }
    Ok(next)
}
