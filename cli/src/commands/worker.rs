//! `jobwright worker`.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jobwright::headers::{EVENT_QUEUE, REPLY_QUEUE};
use jobwright::internal::Backend;
use jobwright::{AnyStore, CommandExecutor, DEFAULT_QUEUE, ExecutorStats, ExternalQueue, MessageServices};
use jobwright_http::Later;

use super::blocked::Scope;
use super::connect_or_create;
use super::drained::drained;
use super::http;
use super::signals::Signals;
use crate::args::WorkerArgs;
use crate::backoff::retried;
use crate::config::{Action, Settings};
use crate::failure::Failure;
use crate::handlers::{Output, Program, Stopping, Webhook};

/// Jobs that one queue runs at the same time, unless configured otherwise.
const DEFAULT_CONCURRENCY: usize = 10;
/// How long the engine may take to record jobs it gives back, once its handlers have stopped.
const LEAVE: Duration = Duration::from_secs(10);

/// How long it may take to notice that a killed program has ended.
const AFTER_KILL: Duration = Duration::from_secs(3);

const NO_HANDLERS: &str = "\
no handlers are configured, so there is nothing this worker could run. Add some to jobwright.toml (or the file of `--config`):

  [handlers.checksum]            # the kind of job, as in `jobwright send checksum …`
  command = [\"sha256sum\"]        # gets the payload on stdin
  timeout = \"10m\"

  [handlers.notify]
  url = \"http://localhost:8080/notify\"   # gets a POST

Where other programs take all jobs by SQL, name their queues:

  [queues.mail]
  external = true";

pub(crate) async fn run(settings: &Settings, args: &WorkerArgs) -> Result<(), Failure> {
    let lanes = lanes(settings, args)?;
    if settings.handlers.is_empty() && !lanes.own.is_empty() {
        return Err(Failure::Usage(NO_HANDLERS.to_owned()));
    }
    // First of all, so that no signal is missed while connecting.
    let mut signals = Signals::new()?;
    let began = Instant::now();
    // Before it connects: a port that is taken is a mistake that no waiting mends.
    let telemetry = Later::default();
    if let Some(address) = http::configured(settings, args.listen.as_ref()) {
        let (listener, routes) = (http::listen(&address).await?, jobwright_http::executor(telemetry.clone()));
        // Until the process ends: probes are answered while it waits for its database, and while it stops.
        tokio::spawn(async move {
            if let Err(error) = jobwright_http::serve(listener, routes, std::future::pending()).await {
                tracing::error!(%error, "metrics and probes are not served any more");
            }
        });
    }
    let made = missing_file(settings)?;
    let messages = tokio::select! {
        connected = reach(settings, args.wait) => connected?,
        name = signals.next(), if args.wait => {
            tracing::info!(signal = name, "stopping: nothing had begun");
            return Ok(());
        }
    };
    if let Some(file) = made {
        tracing::warn!(
            %file,
            "this worker has made a new embedded database; if its jobs are in another one, set DATABASE_URL or `database.url`"
        );
    }
    let admin = messages.admin();
    let broker = messages.broker().cloned();
    let outbound = broker.iter().flat_map(|_| [EVENT_QUEUE, REPLY_QUEUE]);
    let scope = Scope {
        queues: lanes.own.keys().cloned().collect(),
        outbound: lanes.external.iter().map(ExternalQueue::name).chain(outbound).map(str::to_owned).collect(),
        kinds: settings.handlers.keys().cloned().collect(),
    };
    let stopping = Stopping::default();
    let output = Arc::new(Output::default());
    let executor = build(settings, lanes, CommandExecutor::builder(messages), &stopping, &output)?.start().await?;
    telemetry.set(executor.telemetry());
    let place = broker.as_ref().map_or_else(|| "none".to_owned(), |broker| broker.describe());
    let named = |names: &BTreeSet<String>| names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    tracing::info!(queues = named(&scope.queues), kinds = named(&scope.kinds), database = %admin.describe(), broker = place, "ready");

    let ended: Result<(), Failure> = tokio::select! {
        name = signals.next() => {
            tracing::info!(signal = name, grace = ?settings.executor.grace, "stopping: no more jobs are taken; another signal stops at once");
            Ok(())
        }
        ended = drained(&executor, &admin, &scope), if args.drain => ended,
        // `shutdown` returns the reason.
        () = executor.ended() => Ok(()),
        () = output.closed() => Err(Failure::Failed(
            "stdout was closed, so the output of programs can't be written any more; the worker stopped".to_owned(),
        )),
    };
    // When the grace is over, programs are asked to end, and have their own grace until they are killed.
    let (grace, stop_grace) = (settings.executor.grace, longest_stop_grace(settings));
    let end = executor.shutdown(grace.saturating_add(stop_grace));
    let ask = async {
        tokio::time::sleep(grace).await;
        stopping.ask();
        std::future::pending::<Infallible>().await
    };
    tokio::pin!(end);
    let (stats, forced) = tokio::select! {
        stats = &mut end => (stats?, false),
        never = ask => match never {},
        name = signals.urgent() => {
            tracing::warn!(signal = name, "stopping at once: running handlers are killed and their jobs given back");
            stopping.force();
            let stats = tokio::time::timeout(LEAVE, &mut end).await.map_err(|_| {
                Failure::Failed("handlers did not stop; their jobs run elsewhere when this worker's lease has ended".to_owned())
            })?;
            (stats?, true)
        }
    };
    summary(&stats, began.elapsed());
    if broker.is_some() {
        broker_summary(&stats);
    }
    if args.fail_on_dead && stats.dead > 0 && ended.is_ok() {
        return Err(Failure::Failed(format!(
            "new dead letters: {}, jobs done: {}; `jobwright jobs errors` says why",
            stats.dead, stats.done
        )));
    }
    if forced && stopping.cut_short() {
        return Err(Failure::Failed("stopped before all handlers had finished".to_owned()));
    }
    ended
}

/// Connects. If `wait` is set, tries until it succeeds or fails for a reason that does not go away.
async fn reach(settings: &Settings, wait: bool) -> Result<MessageServices<AnyStore>, Failure> {
    if wait { retried(async || connect_or_create(settings).await).await } else { connect_or_create(settings).await }
}

/// Returns the file of an embedded database that does not exist yet. A worker creates it, and so would one whose URL was forgotten.
fn missing_file(settings: &Settings) -> Result<Option<String>, Failure> {
    Ok(match settings.database.backend()? {
        Backend::Sqlite(file) if matches!(Path::new(file).try_exists(), Ok(false)) => Some(file.to_owned()),
        _ => None,
    })
}

/// The queues that this worker serves.
struct Lanes {
    /// Queues that run here, with the number of concurrent jobs.
    own: BTreeMap<String, usize>,
    /// Queues that are handed to external workers.
    external: Vec<ExternalQueue>,
}

/// Returns the queues of the command line, or else those of the configuration, or else `default`.
fn lanes(settings: &Settings, args: &WorkerArgs) -> Result<Lanes, Failure> {
    let configured = |name: &str| settings.queues.get(name);
    let concurrency = |name: &str| configured(name).and_then(|queue| queue.concurrency).unwrap_or(DEFAULT_CONCURRENCY);
    let named: Vec<(String, Option<usize>)> = match (args.queue.as_slice(), settings.queues.is_empty()) {
        ([], true) => vec![(DEFAULT_QUEUE.to_owned(), None)],
        ([], false) => settings.queues.keys().map(|name| (name.clone(), None)).collect(),
        (named, _) => named.to_vec(),
    };
    let mut lanes = Lanes { own: BTreeMap::new(), external: Vec::new() };
    for (name, number) in named {
        match (configured(&name).and_then(|queue| queue.external.clone()), number) {
            (Some(_), Some(_)) => {
                return Err(Failure::Usage(format!(
                    "the jobs of queue {name:?} are for external workers (`external = true`), which decide themselves how many they run: write \
                     `--queue {name}`, without a number"
                )));
            }
            (Some(queue), None) => lanes.external.push(queue),
            (None, number) => drop(lanes.own.insert(name.clone(), number.unwrap_or_else(|| concurrency(&name)))),
        }
    }
    let has_workers = matches!(settings.database.backend()?, Backend::Postgres(_)) || settings.broker.url.is_some();
    if !lanes.external.is_empty() && !has_workers {
        let names: Vec<&str> = lanes.external.iter().map(ExternalQueue::name).collect();
        return Err(Failure::Usage(format!(
            "external workers get their jobs over the broker, and there is none; by SQL they can take jobs from PostgreSQL, and not from an \
             embedded database. Set `broker.url` (AMQP_URL) for {}, or remove `external = true`",
            names.join(", ")
        )));
    }
    Ok(lanes)
}

fn build(
    settings: &Settings,
    lanes: Lanes,
    builder: jobwright::ExecutorBuilder<AnyStore>,
    stopping: &Stopping,
    output: &Arc<Output>,
) -> Result<jobwright::ExecutorBuilder<AnyStore>, Failure> {
    let mut builder = builder.config(settings.executor.clone());
    // Jobs of a kind may be in any queue.
    let slots = lanes.own.values().fold(0_usize, |sum, slots| sum.saturating_add(*slots));
    for (name, concurrency) in lanes.own {
        if let Some(retry) = settings.queues.get(&name).and_then(|queue| queue.retry.clone()) {
            builder = builder.queue_retry(&name, retry);
        }
        builder = builder.queue(name, concurrency);
    }
    for queue in lanes.external {
        // For failures for which the worker sets no other delay.
        if let Some(retry) = settings.queues.get(queue.name()).and_then(|queue| queue.retry.clone()) {
            builder = builder.queue_retry(queue.name(), retry);
        }
        builder = builder.external_queue(queue);
    }
    for (kind, handler) in &settings.handlers {
        let mut options = handler.options.clone();
        if let (Action::Command(_), Some(limit)) = (&handler.action, options.timeout) {
            // A program is asked to end at its timeout, and killed later. The engine's own timeout is for one that does not end even then.
            options = options.timeout(limit.saturating_add(handler.stop_grace).saturating_add(LEAVE));
        }
        builder = builder.kind_options(kind, options);
        builder = match &handler.action {
            Action::Command(words) => {
                let program = Arc::new(Program {
                    words: words.clone(),
                    pass_urls: handler.pass_urls,
                    reply: handler.reply,
                    timeout: handler.options.timeout,
                    stop_grace: handler.stop_grace,
                    later: handler.later,
                    output: output.clone(),
                    stopping: stopping.clone(),
                });
                let checked = program.clone();
                builder.check_kind(kind, move || checked.check()).handle_with(kind, move |cx| {
                    let program = program.clone();
                    Box::pin(async move { program.run(cx).await })
                })
            }
            Action::Url(urls) => {
                let longest = handler.reply.then_some(settings.database.max_payload);
                let slots = handler.options.concurrency.map_or(slots, |most| most.min(slots));
                let webhook = Webhook::new(kind, urls, handler.options.timeout, slots, longest, stopping.clone())
                    .map_err(|why| Failure::Usage(format!("`[handlers.{kind}]` {why}")))?;
                let webhook = Arc::new(webhook);
                let watched = webhook.clone();
                let builder = builder.watch_kind(kind, move || watched.check());
                if handler.reply {
                    builder.handle_with(kind, move |cx| {
                        let webhook = webhook.clone();
                        Box::pin(async move { webhook.answer(cx).await })
                    })
                } else {
                    builder.handle(kind, move |job| {
                        let webhook = webhook.clone();
                        async move { webhook.run(job).await }
                    })
                }
            }
        };
    }
    Ok(builder)
}

fn longest_stop_grace(settings: &Settings) -> Duration {
    let programs = settings.handlers.values().filter(|handler| matches!(handler.action, Action::Command(_)));
    programs.map(|handler| handler.stop_grace + AFTER_KILL).max().unwrap_or_default()
}

fn summary(stats: &ExecutorStats, took: Duration) {
    let ExecutorStats { claimed, handed_over, done, failed, other, dead, released, refused, leases_lost, .. } = *stats;
    let seconds = took.as_secs_f64();
    tracing::info!(
        taken = claimed + handed_over,
        done,
        failed_attempts = failed,
        other,
        dead,
        released,
        refused,
        leases_lost,
        seconds = format_args!("{seconds:.1}"),
        "worker stopped"
    );
}

fn broker_summary(stats: &ExecutorStats) {
    let ExecutorStats { delivered, stale, left_to_table, submitted, handed_out, reported, relayed, .. } = *stats;
    tracing::info!(delivered, stale, left_to_table, submitted, handed_out, reported, relayed, "over the broker");
}
