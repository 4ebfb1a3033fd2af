//! Half of a fleet that vanishes without a goodbye while it runs jobs.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use jobwright::{MessageServices, NewJob};
use tokio::sync::mpsc;

use super::args::MemberArgs;
use super::ledger::{Ledger, Sent};
use super::member::SLOTS;
use super::processes::{Said, next, start};
use super::site::{Site, Tables};
use crate::Result;
use crate::load::{QUEUE, raw_payload};

/// Most processes of the half that stays. Executors of one process take turns with the jobs of the dead, so there are as many processes as the machine
/// stands.
const PROCESSES: usize = 20;
/// How long all jobs may take to start, and to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// How the jobs of the killed half came back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Killed {
    /// Executors that were killed.
    pub(super) nodes: usize,
    /// Jobs that they ran.
    pub(super) jobs: usize,
    /// Seconds from the kill until the first of them ran elsewhere.
    pub(super) first: f64,
    /// Seconds until all of them did.
    pub(super) all: f64,
}

/// Returns how long the jobs may take: a node's lease, a quarter of it, and a few seconds.
pub(super) fn limit(lease: Duration) -> f64 {
    lease.as_secs_f64() * 1.25 + 5.0
}

/// Measures, and adds what is wrong to the problems.
pub(super) async fn run(
    site: &Site,
    tables: &Tables,
    nodes: usize,
    lease: Duration,
    problems: &mut Vec<String>,
) -> Result<Killed> {
    let (mut processes, mut said) = start(&members(tables, nodes, lease), &site.url).await?;
    let services = MessageServices::postgres(&tables.config).await?;
    let client = site.client().await?;
    let sent = send(&services, nodes * SLOTS).await?;
    let Starts { victims, survivors } = Starts::all(&mut said, sent.len()).await?;
    // The half that stays has free slots from here on.
    for process in &mut processes[1..] {
        process.release().await?;
    }
    let jobs = victims.len();
    let left = tables.until_left(&client, jobs as i64, PATIENCE).await?;
    if left != jobs as i64 {
        return Err(format!("{left} jobs are left, and the half to be killed runs {jobs}").into());
    }

    let killed = Instant::now();
    processes[0].kill().await?;
    let again = Ledger::default();
    let (mut waiting, mut first, mut all) = (victims.clone(), None, killed);
    let deadline = killed + lease * 3 + PATIENCE;
    while !waiting.is_empty() {
        let Some(Said { line, at, .. }) = next(&mut said, deadline).await else { break };
        waiting.remove(&line);
        (first, all) = (first.or(Some(at)), at);
        again.started(line);
    }
    let left = tables.until_left(&client, 0, PATIENCE).await?;
    while let Ok(Said { line, .. }) = said.try_recv() {
        again.started(line);
    }
    let back = Sent { sure: victims.into_iter().collect(), ..Sent::default() };
    problems.extend(again.problems("jobs of the killed half", &back, left));
    if survivors.iter().any(|id| back.sure.contains(id)) {
        problems.push("killed half: a job ran in both halves at the same time".to_owned());
    }
    Ok(Killed {
        nodes: nodes / 2,
        jobs,
        first: first.map_or(f64::NAN, |first| first.duration_since(killed).as_secs_f64()),
        all: if waiting.is_empty() { all.duration_since(killed).as_secs_f64() } else { f64::NAN },
    })
}

/// Returns the processes: the first is the half to be killed.
fn members(tables: &Tables, nodes: usize, lease: Duration) -> Vec<MemberArgs> {
    let member = |nodes| MemberArgs { schema: tables.schema.clone(), nodes, lease };
    let staying = nodes - nodes / 2;
    let processes = staying.min(PROCESSES);
    let shares = (0..processes).map(|n| staying / processes + usize::from(n < staying % processes));
    std::iter::once(nodes / 2).chain(shares).map(member).collect()
}

async fn send(services: &MessageServices, jobs: usize) -> Result<HashSet<String>> {
    let mut context = services.begin();
    let mut ids = HashSet::new();
    for _ in 0..jobs {
        let job = NewJob::json(crate::load::KIND, &*raw_payload()?).queue(QUEUE);
        ids.insert(context.send(job)?.to_string());
    }
    context.commit().await?;
    Ok(ids)
}

/// Which half runs which jobs.
#[derive(Debug, Default)]
struct Starts {
    victims: HashSet<String>,
    survivors: HashSet<String>,
}

impl Starts {
    /// Waits until this many jobs run.
    async fn all(said: &mut mpsc::UnboundedReceiver<Said>, jobs: usize) -> Result<Self> {
        let deadline = Instant::now() + PATIENCE;
        let mut starts = Self::default();
        while starts.victims.len() + starts.survivors.len() < jobs {
            let Some(Said { process, line, .. }) = next(said, deadline).await else {
                let started = starts.victims.len() + starts.survivors.len();
                return Err(format!("{started} of {jobs} jobs have started in {} s", PATIENCE.as_secs()).into());
            };
            let half = if process == 0 { &mut starts.victims } else { &mut starts.survivors };
            half.insert(line);
        }
        Ok(starts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_nodes_are_in_processes_and_half_of_them_in_the_first() {
        let tables = Tables { schema: "s".to_owned(), config: jobwright::DatabaseConfig::default() };
        for nodes in [2, 3, 40, 501] {
            let members: Vec<usize> =
                members(&tables, nodes, Duration::from_secs(30)).iter().map(|member| member.nodes).collect();
            assert_eq!((members.iter().sum::<usize>(), members[0]), (nodes, nodes / 2));
            assert!(members.len() <= PROCESSES + 1 && !members.contains(&0));
        }
        assert!((limit(Duration::from_secs(30)) - 42.5).abs() < 1e-9);
    }
}
