//! A restart of the database under a fleet that runs jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use jobwright::telemetry::Telemetry;
use jobwright::{ErrorKind, JobId, MessageServices};

use super::connections::{arrivals, between, most_in_a_second};
use super::ledger::Sent;
use super::load::job;
use super::nodes::Nodes;
use super::observer::Observer;
use super::private_server::PrivateServer;
use super::site::{Site, Tables};
use crate::Result;

/// How long the jobs before the restart take, so that it meets running ones.
const WORK: Duration = Duration::from_secs(1);
/// Jobs for each node before the restart, and again after it.
const JOBS: usize = 5;
/// How long the nodes may take to come back.
const PATIENCE: Duration = Duration::from_secs(180);

/// How a fleet came through a restart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Restart {
    /// Seconds from the end of the first connection until the server accepted connections again.
    pub(super) away: f64,
    /// Seconds from then until all nodes were ready and had renewed their leases.
    pub(super) back: f64,
    /// Nodes that were not ready at some time.
    pub(super) not_ready: usize,
    /// Connections that reached the server in the worst second.
    pub(super) most_in_a_second: usize,
    /// All of them until the last node was back.
    pub(super) connections: usize,
    /// Jobs that were sent before, during and after.
    pub(super) jobs: usize,
    /// Sends that failed meanwhile.
    pub(super) failed: usize,
}

/// Restarts the server, and adds what is wrong to the problems. `sent` are all jobs that these nodes got before.
pub(super) async fn run(
    (site, server): (&Site, &PrivateServer),
    tables: &Tables,
    nodes: &Nodes,
    sent: &mut Sent<JobId>,
    (lease, problems): (Duration, &mut Vec<String>),
) -> Result<Restart> {
    let services = MessageServices::postgres(&tables.config).await?;
    let telemetry = nodes.telemetry();
    let earlier = sent.sure.len();
    nodes.work(WORK);
    let jobs = telemetry.len() * JOBS;
    sent.sure.extend(send(&services, jobs).await?);
    until_running(nodes, telemetry.len().min(jobs)).await?;

    let stop = Arc::new(AtomicBool::new(false));
    let trickling = tokio::spawn(trickle(services.clone(), stop.clone()));
    let observer = site.observer().await?;
    let began = epoch();
    let restarting = async { server.restart().await.map(|()| Instant::now()) };
    let (up, back) = tokio::join!(restarting, all_back(&observer, &telemetry));
    let (up, back) = (up?, back?);
    let ended = epoch();
    stop.store(true, Ordering::Relaxed);
    let meanwhile = tokio::time::timeout(PATIENCE, trickling)
        .await
        .map_err(|_| format!("a send has not ended within {} s", PATIENCE.as_secs()))???;

    nodes.work(Duration::ZERO);
    sent.sure.extend(meanwhile.sure);
    sent.unknown.extend(meanwhile.unknown);
    sent.sure.extend(send(&services, jobs).await?);
    let left = tables.until_left(&site.client().await?, 0, lease * 2 + Duration::from_secs(60)).await?;
    problems.extend(nodes.ledger.problems("restart", sent, left));
    let arrivals = arrivals(&server.log()?);
    Ok(Restart {
        away: up.saturating_duration_since(back.down).as_secs_f64(),
        back: back.all.saturating_duration_since(up).as_secs_f64(),
        not_ready: back.not_ready,
        most_in_a_second: most_in_a_second(&arrivals, began, ended),
        connections: between(&arrivals, began, ended),
        jobs: sent.sure.len() - earlier,
        failed: meanwhile.failed,
    })
}

/// Sends jobs in one transaction.
async fn send(services: &MessageServices, jobs: usize) -> Result<Vec<JobId>> {
    let mut context = services.begin();
    let ids = (0..jobs).map(|_| Ok(context.send(job()?)?)).collect::<Result<Vec<JobId>>>()?;
    context.commit().await?;
    Ok(ids)
}

async fn until_running(nodes: &Nodes, jobs: usize) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while nodes.running() < jobs {
        if Instant::now() > deadline {
            return Err(format!("{} jobs run after 30 s, and not {jobs}", nodes.running()).into());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

/// Sends a job every tenth of a second until it is told to stop.
async fn trickle(services: MessageServices, stop: Arc<AtomicBool>) -> Result<Sent<JobId>> {
    let mut sent = Sent::default();
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    while !stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        let id = JobId::new();
        match services.send(job()?.id(id)).await {
            Ok(id) => sent.sure.push(id),
            Err(error) if matches!(error.kind(), ErrorKind::CommitUnknown | ErrorKind::Timeout) => {
                sent.unknown.push(id);
            }
            Err(error) if error.is_retryable() => sent.failed += 1,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(sent)
}

struct Back {
    /// When the first connection ended.
    down: Instant,
    /// When the last node was back.
    all: Instant,
    not_ready: usize,
}

/// Waits until the server goes away, and then until all nodes are back: ready, and with a lease that was renewed since. A node may be called ready all the
/// time, because it asks the database for its lease only now and then.
async fn all_back(observer: &Observer, nodes: &[Telemetry]) -> Result<Back> {
    let deadline = Instant::now() + PATIENCE;
    while !observer.is_closed() {
        if Instant::now() > deadline {
            return Err("the server was to be restarted, and has closed no connection".into());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let down = Instant::now();
    let left = |node: &Telemetry| node.metrics().lease_seconds_left;
    let mut waiting: Vec<_> =
        nodes.iter().map(|node| Waiting { node, left: left(node), renewed: false, ready: true }).collect();
    let mut not_ready = 0;
    loop {
        waiting.retain_mut(|waits| {
            let now = left(waits.node);
            // It only falls between two renewals.
            waits.renewed |= now.is_some_and(|now| waits.left.is_none_or(|before| now > before));
            waits.left = now;
            let ready = waits.node.health().is_ready();
            not_ready += usize::from(waits.ready && !ready);
            waits.ready &= ready;
            !(waits.renewed && ready)
        });
        if waiting.is_empty() {
            return Ok(Back { down, all: Instant::now(), not_ready });
        }
        if Instant::now() > deadline {
            let why = waiting.first().map(|waits| format!("{:?}", waits.node.health().checks)).unwrap_or_default();
            return Err(format!(
                "{} nodes are not back {} s after the restart; the first: {why}",
                waiting.len(),
                PATIENCE.as_secs()
            )
            .into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A node that is not back.
struct Waiting<'a> {
    node: &'a Telemetry,
    /// What was left of its lease, in seconds.
    left: Option<f64>,
    renewed: bool,
    /// Whether it was ready all the time.
    ready: bool,
}

/// Returns the seconds since 1970, as the server's log has them.
fn epoch() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}
