//! A process of the fleet: `jobwright-bench fleet-member`. It prints READY when its executors are ready, and the id of each job that starts. Its jobs go on
//! until it reads RELEASE; later ones end at once. It ends, like after a crash, when its input does.

use std::io::{BufRead as _, Write as _};
use std::time::Duration;

use jobwright::{CommandExecutor, DatabaseConfig, ExecutorConfig, Job, MessageServices, Outcome};
use tokio::sync::watch;

use super::args::MemberArgs;
use super::nodes::{PATIENCE, until_ready};
use crate::Result;
use crate::load::{KIND, QUEUE};

/// The variable with the URL of the database.
pub(super) const URL: &str = "JOBWRIGHT_BENCH_FLEET_URL";
/// Jobs that an executor runs at the same time.
pub(super) const SLOTS: usize = 2;

/// Runs executors until the input ends.
pub(crate) async fn run(args: &MemberArgs) -> Result<()> {
    let url = std::env::var(URL).map_err(|_| "`fleet-member` is for `fleet` alone, which starts it")?;
    let config = DatabaseConfig::url(url).schema(args.schema.clone());
    let (release, released) = watch::channel(false);
    let starting = (0..args.nodes).map(|n| start(&config, n, args.lease, released.clone()));
    let executors = tokio::time::timeout(PATIENCE, futures_util::future::try_join_all(starting))
        .await
        .map_err(|_| "the executors have not registered in time")??;
    let telemetry: Vec<_> = executors.iter().map(CommandExecutor::telemetry).collect();
    until_ready(&telemetry, PATIENCE).await?;
    say("READY")?;
    tokio::task::spawn_blocking(move || {
        for line in std::io::stdin().lock().lines() {
            if line? == "RELEASE" {
                release.send_replace(true);
            }
        }
        Ok::<_, std::io::Error>(())
    })
    .await??;
    // Nothing says goodbye.
    std::process::exit(0)
}

async fn start(
    config: &DatabaseConfig,
    n: usize,
    lease: Duration,
    released: watch::Receiver<bool>,
) -> Result<CommandExecutor> {
    let handler = move |job: Job| {
        let told = say(&job.id.to_string());
        let mut released = released.clone();
        async move {
            told?;
            released.wait_for(|released| *released).await?;
            Ok(Outcome::Done)
        }
    };
    let services = MessageServices::postgres(config).await?;
    let config = ExecutorConfig::default().name(format!("fleet-{}-{n}", std::process::id())).lease(lease);
    let builder = CommandExecutor::builder(services).config(config).queue(QUEUE, SLOTS);
    Ok(builder.handle(KIND, handler).start().await?)
}

fn say(line: &str) -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}
