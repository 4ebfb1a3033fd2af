//! Whether one queue's jobs wait for the admission of another's: how soon a limited job starts while another queue has a backlog of limited jobs,
//! compared with a backlog of plain jobs. The cost for the machine is the same: both backlogs run 50 jobs at a time, of 5 ms each.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use jobwright::store::{Rule, Scope};
use jobwright::{CommandExecutor, Job, NewJob, Outcome};
use tokio::sync::mpsc;

use crate::Result;
use crate::cases::{PATIENCE, millis};
use crate::load::{KIND, QUEUE, job, raw_payload, send};
use crate::report::{Line, Report, Unit};
use crate::setup::Bench;
use crate::stats::percentile;

const CALM: &str = "calm";
const PACE: Duration = Duration::from_millis(20);
const AT_A_TIME: u32 = 50;
const TAKES: Duration = Duration::from_millis(5);

pub(super) async fn run(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    for _ in 0..bench.args.runs {
        limit.push(waits(bench, false).await?);
        ours.push(waits(bench, true).await?);
    }
    for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
        let at = |runs: &[Vec<f64>]| runs.iter().map(|times| percentile(times, share)).collect::<Vec<f64>>();
        eprintln!("  {name}: {:.2?} beside {:.2?}", at(&ours), at(&limit));
        let what =
            format!("a limited job beside another queue's flood of limited ones: commit to start at 50/s, {name}");
        report.add(Line::new(what, Unit::Milliseconds, at(&ours)).limit("beside a flood of plain ones", at(&limit)));
    }
    Ok(())
}

/// Returns milliseconds from the return of each commit to the start of its job.
async fn waits(bench: &Bench<'_>, limited: bool) -> Result<Vec<f64>> {
    let jobs = bench.args.count(150, 30);
    // More than can end meanwhile.
    let flood = jobs * PACE.as_millis() as usize / TAKES.as_millis() as usize * AT_A_TIME as usize * 5 / 4;
    let schema = bench.schema().await?;
    let services = schema.services().await?;
    let payload = raw_payload()?;
    services.admin().put_rule(&Rule::new(Scope::Queue, CALM).running(AT_A_TIME)).await?;
    if limited {
        services.admin().put_rule(&Rule::new(Scope::Queue, QUEUE).running(AT_A_TIME)).await?;
    }
    send(&services, flood, |_| job(&payload)).await?;
    schema.vacuum(bench.server.client()).await?;
    let busy = CommandExecutor::builder(services)
        .handle(KIND, |_: Job| async {
            tokio::time::sleep(TAKES).await;
            Ok(Outcome::Done)
        })
        .queue(QUEUE, AT_A_TIME as usize)
        .start()
        .await?;
    let (started, mut starts) = mpsc::unbounded_channel();
    let calm = CommandExecutor::builder(schema.services().await?)
        .handle(KIND, move |job: Job| {
            let started = started.clone();
            async move {
                let _ = started.send((job.id, Instant::now()));
                Ok(Outcome::Done)
            }
        })
        .queue(CALM, AT_A_TIME as usize)
        .start()
        .await?;
    let sender = schema.services().await?;
    let (mut sent, mut ticks) = (HashMap::with_capacity(jobs), tokio::time::interval(PACE));
    // The first ones connect and prepare.
    let warm = 10;
    for n in 0..jobs + warm {
        ticks.tick().await;
        let mut context = sender.begin();
        let id = context.send(NewJob::json(KIND, &payload).queue(CALM))?;
        context.commit().await?;
        sent.insert(id, (n, Instant::now()));
    }
    let mut times = Vec::with_capacity(jobs);
    for _ in 0..jobs + warm {
        let (id, start) = tokio::time::timeout(PATIENCE, starts.recv()).await?.ok_or("the executor is gone")?;
        let (n, committed) = sent.get(&id).ok_or("a job was run that was not sent")?;
        if *n >= warm {
            times.push(millis(start.saturating_duration_since(*committed)));
        }
    }
    if busy.stats().done >= flood as u64 {
        return Err("the flood was over before the measurement".into());
    }
    busy.shutdown(Duration::from_secs(5)).await?;
    calm.shutdown(Duration::from_secs(5)).await?;
    drop(sender);
    bench.drop(schema).await?;
    Ok(times)
}
