//! `jobwright worker`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jobwright::{AnyStore, CommandExecutor, DEFAULT_QUEUE, ExecutorStats};
use tokio_util::sync::CancellationToken;

use super::connect;
use super::drained::{Scope, drained};
use super::signals::Signals;
use crate::args::WorkerArgs;
use crate::config::{Action, Settings};
use crate::failure::Failure;
use crate::handlers::{Output, Program, Webhook};

/// Jobs one queue runs at the same time unless it says otherwise.
const DEFAULT_CONCURRENCY: usize = 10;
/// How long the engine may take to write down what was given back, once its handlers have stopped.
const LEAVE: Duration = Duration::from_secs(10);

const NO_HANDLERS: &str = "\
no handlers are configured, so there is nothing this worker could run. Put some into jobwright.toml (or the file of `--config`):

  [handlers.checksum]            # the kind of job, as in `jobwright send checksum …`
  command = [\"sha256sum\"]        # gets the payload on stdin
  timeout = \"10m\"

  [handlers.notify]
  url = \"http://localhost:8080/notify\"   # gets a POST";

pub(crate) async fn run(settings: &Settings, args: &WorkerArgs) -> Result<(), Failure> {
    if settings.handlers.is_empty() {
        return Err(Failure::Usage(NO_HANDLERS.to_owned()));
    }
    // First of all, so that no signal is missed while connecting.
    let mut signals = Signals::new()?;
    let began = Instant::now();
    let queues = queues(settings, args);
    let scope = Scope { queues: queues.keys().cloned().collect(), kinds: settings.handlers.keys().cloned().collect() };
    let messages = connect(settings).await?;
    let jobs = messages.jobs().clone();
    let abort = CancellationToken::new();
    let output = Arc::new(Output::default());
    let executor = build(settings, queues, CommandExecutor::builder(messages), &abort, &output)?.start().await?;
    tracing::info!(queues = ?scope.queues, kinds = ?scope.kinds, database = %jobs.describe(), "ready");

    let ended: Result<(), Failure> = tokio::select! {
        name = signals.next() => {
            tracing::info!(signal = name, grace = ?settings.executor.grace, "stopping: no more jobs are taken; another signal stops at once");
            Ok(())
        }
        ended = drained(&executor, &jobs, &scope), if args.drain => ended,
        () = output.closed() => Err(Failure::Failed(
            "stdout was closed, so the output of programs can't be written any more; the worker stopped".to_owned(),
        )),
    };
    let stopping = executor.shutdown(settings.executor.grace);
    tokio::pin!(stopping);
    let (stats, forced) = tokio::select! {
        stats = &mut stopping => (stats?, false),
        name = signals.next() => {
            tracing::warn!(signal = name, "stopping at once: running handlers are killed and their jobs given back");
            abort.cancel();
            let stats = tokio::time::timeout(LEAVE, &mut stopping).await.map_err(|_| {
                Failure::Failed("handlers did not stop; their jobs run elsewhere when this worker's lease has ended".to_owned())
            })?;
            (stats?, true)
        }
    };
    summary(&stats, began.elapsed());
    if forced {
        return Err(Failure::Failed("stopped before all handlers had finished".to_owned()));
    }
    ended
}

/// The queues of the command line, or else those of the configuration, or else `default`.
fn queues(settings: &Settings, args: &WorkerArgs) -> BTreeMap<String, usize> {
    let configured = |name: &str| settings.queues.get(name).copied().flatten().unwrap_or(DEFAULT_CONCURRENCY);
    if !args.queue.is_empty() {
        return args.queue.iter().map(|(name, n)| (name.clone(), n.unwrap_or_else(|| configured(name)))).collect();
    }
    if settings.queues.is_empty() {
        return BTreeMap::from([(DEFAULT_QUEUE.to_owned(), DEFAULT_CONCURRENCY)]);
    }
    settings.queues.keys().map(|name| (name.clone(), configured(name))).collect()
}

fn build(
    settings: &Settings,
    queues: BTreeMap<String, usize>,
    builder: jobwright::ExecutorBuilder<AnyStore>,
    abort: &CancellationToken,
    output: &Arc<Output>,
) -> Result<jobwright::ExecutorBuilder<AnyStore>, Failure> {
    let mut builder = builder.config(settings.executor.clone());
    for (name, concurrency) in queues {
        builder = builder.queue(name, concurrency);
    }
    for (kind, handler) in &settings.handlers {
        builder = builder.kind_options(kind, handler.options.clone());
        builder = match &handler.action {
            Action::Command(words) => {
                let program = Arc::new(Program::new(words.clone(), output.clone(), abort.clone()));
                builder.handle(kind, move |job| {
                    let program = program.clone();
                    async move { program.run(&job).await }
                })
            }
            Action::Url(url) => {
                let webhook = Webhook::new(url.clone(), handler.options.timeout, abort.clone())
                    .map_err(|why| Failure::Usage(format!("`[handlers.{kind}]` {why}")))?;
                let webhook = Arc::new(webhook);
                builder.handle(kind, move |job| {
                    let webhook = webhook.clone();
                    async move { webhook.run(job).await }
                })
            }
        };
    }
    Ok(builder)
}

fn summary(stats: &ExecutorStats, took: Duration) {
    let ExecutorStats { claimed, handed_over, done, failed, other, released, refused, leases_lost, .. } = *stats;
    let seconds = took.as_secs_f64();
    tracing::info!(
        taken = claimed + handed_over,
        done,
        failed_attempts = failed,
        other,
        released,
        refused,
        leases_lost,
        seconds = format_args!("{seconds:.1}"),
        "worker stopped"
    );
}
