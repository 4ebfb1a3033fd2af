//! Reports of external workers.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backoff::Reconnect;
use crate::broker::{Acks, Broker, ExternalReport, Incoming, Refusal, Tag, wire};
use crate::error::{Result, warn_of};
use crate::executor::broker::bisect;
use crate::executor::broker::mode::{BATCH, alive};
use crate::executor::broker::rejection::{Rejection, RejectionSink};
use crate::executor::broker::report_key::CachedReportKey;
use crate::executor::broker::stop::between_calls;
use crate::executor::kinds::failure_policy::RetryDecision;
use crate::executor::metrics::stats::add;
use crate::executor::node::Node;
use crate::job::{Fence, Job, JobError, JobMessage, REPLY_QUEUE, ReportKey};
use crate::store::{Completed, Extension, ExternalDone, Hint, JobDetail, JobSummary, Settlement, Verdict};

/// The time until a report on a locked job is tried again, at first and at most.
const HELD_FIRST: Duration = Duration::from_millis(500);
const HELD: Duration = Duration::from_secs(30);

/// Records reports until the node stops claiming.
pub(crate) async fn run(node: Arc<Node>, broker: Arc<Broker>, key: Arc<CachedReportKey>) {
    between_calls(&node.stop_claiming, Box::pin(record(&node, &broker, &key))).await;
}

async fn record(node: &Arc<Node>, broker: &Arc<Broker>, key: &CachedReportKey) {
    let stop = &node.stop_claiming;
    let key = if broker.config().report_tokens {
        let Some(key) = stop.run_until_cancelled(read(key, node)).await else { return };
        Some(key)
    } else {
        None
    };
    let limits = node.job_limits;
    let mut subscription = broker.subscribe_carefully(broker.names().reply(), bisect::prefetch(limits), limits.payload);
    let acks = subscription.acks();
    let mut buffer = Vec::new();
    let rejections = RejectionSink::new(broker.clone(), acks.clone());
    let mut held = HeldReports::default();
    loop {
        let next = held.next();
        tokio::select! {
            () = stop.cancelled() => return,
            came = subscription.recv_many(&mut buffer, BATCH) => if came == 0 { return },
            () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now).into()), if next.is_some() => {
                buffer = held.due(Instant::now());
            }
        }
        for some in bisect::batches(std::mem::take(&mut buffer)) {
            if stop.is_cancelled() {
                return;
            }
            for message in take(node, broker, some, key, (&acks, &rejections)).await {
                acks.waits(message.tag);
                held.put(message, Instant::now());
            }
        }
    }
}

/// Reports on jobs that another transaction has locked. They stay unacked, and are tried again with growing pauses.
#[derive(Default)]
struct HeldReports {
    waiting: Vec<(Instant, Incoming)>,
    /// The last pause of each.
    pauses: HashMap<Tag, Duration>,
}

impl HeldReports {
    fn next(&self) -> Option<Instant> {
        self.waiting.iter().map(|(at, _)| *at).min()
    }

    fn due(&mut self, now: Instant) -> Vec<Incoming> {
        let due = self.waiting.extract_if(.., |(at, _)| *at <= now).map(|(_, message)| message).collect();
        if self.waiting.is_empty() && self.pauses.len() > BATCH {
            // Those that are decided. Forgetting the others makes them come again sooner.
            self.pauses.clear();
        }
        due
    }

    fn put(&mut self, message: Incoming, now: Instant) {
        // Their channel is gone: the broker delivers them again.
        self.waiting.retain(|(_, other)| other.tag.generation == message.tag.generation);
        let pause =
            self.pauses.entry(message.tag).and_modify(|pause| *pause = (2 * *pause).min(HELD)).or_insert(HELD_FIRST);
        self.waiting.push((now + *pause, message));
    }
}

/// Reads the report key. Reports wait in the broker until it is known.
async fn read<'k>(key: &'k CachedReportKey, node: &Node) -> &'k ReportKey {
    let mut delays = Reconnect::new(Duration::from_secs(5));
    loop {
        match key.get(node).await {
            Ok(key) => return key,
            Err(error) => warn_of!(error, "reports of external workers can't be taken; trying again"),
        }
        tokio::time::sleep(delays.next_delay()).await;
    }
}

/// Records reports. Returns those that wait for another transaction.
async fn take(
    node: &Arc<Node>,
    broker: &Arc<Broker>,
    came: Vec<Incoming>,
    key: Option<&ReportKey>,
    (acks, rejections): (&Acks, &RejectionSink),
) -> Vec<Incoming> {
    let mut aside = Vec::new();
    let mut messages = Vec::new();
    let mut reports = Reports::default();
    for message in came {
        match wire::report(&message, node.job_limits, key) {
            Ok(report) => {
                reports.add(messages.len(), report);
                messages.push(message);
            }
            Err(why) => aside.push(Rejection::report(broker.names(), message, &why)),
        }
    }
    let mut refused = reports.store(node, broker, &messages, acks).await;
    let mut held = Vec::new();
    for (index, message) in messages.into_iter().enumerate() {
        match refused.remove(&index) {
            Some(Left::Refused(why)) => aside.push(Rejection::report(broker.names(), message, &why)),
            Some(Left::Held) => held.push(message),
            None => {}
        }
    }
    if !aside.is_empty() {
        node.counters.messages_refused.add(aside.iter().map(|aside| aside.reason));
        let rejections = rejections.clone();
        tokio::spawn(async move { rejections.put(aside).await });
    }
    held
}

/// A report that was not recorded.
enum Left {
    Refused(Refusal),
    /// Another transaction has locked its job.
    Held,
}

/// Reports that ask for the same, and the indexes of their messages.
struct Alike<T> {
    reports: Vec<T>,
    of: Vec<usize>,
}

impl<T> Default for Alike<T> {
    fn default() -> Self {
        Self { reports: Vec::new(), of: Vec::new() }
    }
}

impl<T> Alike<T> {
    fn add(&mut self, of: usize, report: T) {
        self.reports.push(report);
        self.of.push(of);
    }

    /// Returns the tags of a range of the messages.
    fn tags(&self, part: Range<usize>, messages: &[Incoming]) -> impl Iterator<Item = Tag> {
        self.of[part].iter().map(|of| messages[*of].tag)
    }
}

/// Reports, grouped by what they ask for.
#[derive(Default)]
struct Reports {
    extensions: Alike<Extension>,
    done: Alike<ExternalDone>,
    failed: Alike<Failed>,
}

impl Reports {
    fn add(&mut self, of: usize, report: ExternalReport) {
        match report {
            ExternalReport::Done { fence, result } => self.done.add(of, ExternalDone { fence, result }),
            ExternalReport::Extend { fence, lease } => self.extensions.add(of, Extension { fence, lease }),
            ExternalReport::Failed { fence, error, detail, advice } => {
                let error = JobError::new(error).advise(advice);
                let error = detail.into_iter().fold(error, JobError::detail);
                self.failed.add(of, Failed { fence, error });
            }
        }
    }

    /// Records the reports and acks those recorded. Repeating this is safe: reports recorded before are refused. Returns the messages whose
    /// reports were not recorded, with the reasons.
    async fn store(
        &self,
        node: &Arc<Node>,
        broker: &Broker,
        messages: &[Incoming],
        acks: &Acks,
    ) -> HashMap<usize, Left> {
        let mut refused = HashMap::new();
        let Self { extensions, done, failed } = self;
        // Extensions first: a worker extends its lease before it reports the end.
        each("extend leases of external workers", node, broker, extensions, &mut refused, |part| {
            let reports = &extensions.reports[part.clone()];
            async move {
                let accepted = node.store.extend_external(reports).await?;
                late(node, "extend", reports.len() - accepted.len());
                acks.ack(extensions.tags(part, messages));
                Ok(())
            }
        })
        .await;
        each("record reports of external workers", node, broker, done, &mut refused, |part| {
            let reports = &done.reports[part.clone()];
            async move {
                let Completed { ids, replies, unblocks } = node.store.complete_external(reports).await?;
                add(&node.counters.reported, ids.len());
                late(node, "done", reports.len() - ids.len());
                acks.ack(done.tags(part, messages));
                if replies {
                    node.wakeup.notify([Hint::Queue(REPLY_QUEUE.to_owned())]);
                }
                if unblocks {
                    node.in_flight.admission_due.notify_one();
                }
                node.wakeup.job_waiters.notify(ids);
                Ok(())
            }
        })
        .await;
        each("record failures of external workers", node, broker, failed, &mut refused, |part| {
            let reports = &failed.reports[part.clone()];
            async move {
                let mut failures = Vec::with_capacity(reports.len());
                for report in reports {
                    failures.push(report.settlement(node).await?);
                }
                let accepted = node.store.settle_external(&failures).await?;
                add(&node.counters.reported, accepted.len());
                late(node, "failed", reports.len() - accepted.len());
                acks.ack(failed.tags(part, messages));
                node.wakeup.notify([Hint::Timer]);
                node.in_flight.admission_due.notify_one();
                Ok(())
            }
        })
        .await;
        refused
    }
}

/// Gives reports to the store, and collects those that it refuses.
async fn each<T, F: Future<Output = Result<()>>>(
    what: &'static str,
    node: &Arc<Node>,
    broker: &Broker,
    alike: &Alike<T>,
    refused: &mut HashMap<usize, Left>,
    call: impl FnMut(Range<usize>) -> F,
) {
    let done = |part: Range<usize>, outcome: Result<()>| {
        let left = match outcome {
            Ok(()) => return,
            Err(error) if error.is_undecided() => {
                warn_of!(error, what, "a report waits: another transaction has locked its job; the others go on");
                Left::Held
            }
            Err(error) => Left::Refused(Refusal::not_stored(&error)),
        };
        refused.insert(alike.of[part.start], left);
    };
    bisect::in_parts(what, alike.of.len(), call, || alive(node, broker), done).await;
}

fn late(node: &Node, what: &str, n: usize) {
    if n > 0 {
        add(&node.counters.reports_refused, n);
        tracing::info!(
            what,
            n,
            "reports of external workers were refused: they came twice, or after their lease had ended"
        );
    }
}

/// A failure as a worker reported it.
struct Failed {
    fence: Fence,
    error: JobError,
}

impl Failed {
    /// Decides what the failure means for the job: as for a handler of this node, by the policies of the job, its kind and its queue. A
    /// conflict counts as an ordinary failure, because no worker can run the job again within its attempt.
    async fn settlement(&self, node: &Node) -> Result<Settlement> {
        let Self { fence, error } = self;
        let detail = node.store.handed_out(*fence).await?;
        let (mut kind, mut queue) = (String::new(), String::new());
        let verdict = match detail {
            Some(detail) => {
                (kind, queue) = (detail.summary.kind.clone(), detail.summary.queue.clone());
                decide(node, error, &job(node.codecs.detail(detail)))
            }
            // The job is no longer this worker's, and the store will refuse the report.
            None => Verdict::Retry(Duration::ZERO),
        };
        let settlement = Settlement::new(*fence, verdict).error(error.message(), error.detail_text());
        Ok(node.codecs.settlement(settlement, &kind, &queue))
    }
}

fn decide(node: &Node, error: &JobError, job: &Job) -> Verdict {
    let handled = node.kinds.get(&job.kind).map(|kind| &kind.options);
    let options = handled.or_else(|| node.failure_policy.kinds.get(&job.kind)).cloned().unwrap_or_default();
    match node.failure_policy.decide(error, job, &options, u32::MAX) {
        RetryDecision::Later(delay) => Verdict::Retry(delay),
        RetryDecision::AtOnce => Verdict::Retry(Duration::ZERO),
        // Only a classifier can say it here, and another external worker may take the job.
        RetryDecision::NotHere => Verdict::Snooze(node.failure_policy.delay(job, &options)),
        RetryDecision::Never => Verdict::Dead,
    }
}

/// Makes the job as a handler would have seen it.
fn job(detail: JobDetail) -> Job {
    let JobDetail { summary, version, headers, payload, options, .. } = detail;
    let JobSummary { id, seq, kind, queue, priority, attempt, max_attempts, created_at, .. } = summary;
    let message = JobMessage { id, priority, max_attempts, headers, options, ..JobMessage::new(kind, queue, payload) };
    // It has been started.
    Job { admitted: true, ..Job::claimed(message, seq, version, attempt, created_at) }
}
