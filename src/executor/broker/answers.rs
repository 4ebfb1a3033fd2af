//! What external workers report.

use std::sync::Arc;
use std::time::Duration;

use super::refuse::{self, Aside};
use super::{BATCH, Incarnation, insist};
use crate::broker::{Acks, Broker, ExternalReport, Incoming, Refusal, wire};
use crate::error::Result;
use crate::executor::failing::Decision;
use crate::executor::stats::add;
use crate::job::{Fence, Job, JobError, REPLY_QUEUE, RowPlace};
use crate::store::{Extension, ExternalDone, Hint, JobDetail, JobSummary, Settlement, Store, Verdict};

/// Records reports until the node stops claiming.
pub(super) async fn run<S: Store>(node: Arc<Incarnation<S>>, broker: Arc<Broker>) {
    let stop = node.stop_claiming.clone();
    tokio::select! {
        () = stop.cancelled() => {}
        () = record(&node, &broker) => {}
    }
}

async fn record<S: Store>(node: &Arc<Incarnation<S>>, broker: &Arc<Broker>) {
    let mut subscription = broker.subscribe_carefully(broker.names().reply(), BATCH as u16);
    let acks = subscription.acks();
    let mut buffer = Vec::new();
    while subscription.recv_many(&mut buffer, BATCH).await > 0 {
        for some in super::parts(&mut buffer) {
            take(node, broker, some, &acks).await;
        }
        buffer.clear();
    }
}

async fn take<S: Store>(node: &Arc<Incarnation<S>>, broker: &Arc<Broker>, messages: &[Incoming], acks: &Acks) {
    let mut aside = Vec::new();
    let mut batch = Batch::default();
    let mut tags = Vec::new();
    for message in messages {
        match wire::report(message, node.messages.limits) {
            Ok(report) => {
                tags.push(message.tag);
                batch.add(report);
            }
            Err(why) => aside.push(Aside::report(broker.names(), message, &why)),
        }
    }
    match batch.store(node).await {
        Ok(()) => acks.ack(tags),
        // One of them the database does not take: one by one, so that it does not hold up the others.
        Err(_) => aside.extend(one_by_one(node, broker, messages, acks).await),
    }
    if !aside.is_empty() {
        add(&node.counters.messages_refused, aside.len());
        tokio::spawn(refuse::set_aside(broker.clone(), acks.clone(), aside));
    }
}

async fn one_by_one<S: Store>(
    node: &Arc<Incarnation<S>>,
    broker: &Broker,
    messages: &[Incoming],
    acks: &Acks,
) -> Vec<Aside> {
    let mut aside = Vec::new();
    for message in messages {
        // Those that can't be read are aside already.
        let Ok(report) = wire::report(message, node.messages.limits) else { continue };
        let mut batch = Batch::default();
        batch.add(report);
        match batch.store(node).await {
            Ok(()) => acks.ack([message.tag]),
            Err(error) => {
                let why = Refusal { reason: "not-stored", text: error.to_string() };
                aside.push(Aside::report(broker.names(), message, &why));
            }
        }
    }
    aside
}

/// Reports, by what they ask for.
#[derive(Default)]
struct Batch {
    extensions: Vec<Extension>,
    done: Vec<ExternalDone>,
    failed: Vec<Failed>,
}

impl Batch {
    fn add(&mut self, report: ExternalReport) {
        match report {
            ExternalReport::Done { fence, result } => self.done.push(ExternalDone { fence, result }),
            ExternalReport::Extend { fence, lease } => self.extensions.push(Extension { fence, lease }),
            ExternalReport::Failed { fence, error, detail, advice } => {
                let error = JobError::new(error).advise(advice);
                let error = detail.into_iter().fold(error, JobError::detail);
                self.failed.push(Failed { fence, error });
            }
        }
    }

    /// Records all of them, as often as it takes. Safe to repeat: what was recorded is refused the next time.
    async fn store<S: Store>(&self, node: &Arc<Incarnation<S>>) -> Result<()> {
        let store = &node.store;
        // Extensions first: a worker extends before it ends.
        if !self.extensions.is_empty() {
            let accepted =
                insist("extend leases of external workers", || store.extend_external(&self.extensions)).await?;
            late(node, "extend", self.extensions.len() - accepted.len());
        }
        if !self.done.is_empty() {
            let accepted = insist("record what external workers did", || store.complete_external(&self.done)).await?;
            add(&node.counters.reported, accepted.len());
            late(node, "done", self.done.len() - accepted.len());
            // Those that asked for a reply have left one.
            node.messages.wakeup.tell([Hint::Queue(REPLY_QUEUE.to_owned())]);
        }
        if !self.failed.is_empty() {
            let mut failures = Vec::with_capacity(self.failed.len());
            for failed in &self.failed {
                failures.push(failed.settlement(node).await?);
            }
            let accepted = insist("record failures of external workers", || store.settle_external(&failures)).await?;
            add(&node.counters.reported, accepted.len());
            late(node, "failed", self.failed.len() - accepted.len());
            node.messages.wakeup.tell([Hint::Timer]);
        }
        if !self.done.is_empty() || !self.failed.is_empty() {
            // What they held may be what others wait for.
            node.in_flight.gate.notify_one();
        }
        Ok(())
    }
}

fn late<S: Store>(node: &Incarnation<S>, what: &str, n: usize) {
    if n > 0 {
        add(&node.counters.reports_refused, n);
        tracing::info!(
            what,
            n,
            "reports of external workers were refused: they came twice, or after their lease had ended"
        );
    }
}

/// A failure, as it was reported.
struct Failed {
    fence: Fence,
    error: JobError,
}

impl Failed {
    /// What it means for the job: as for a handler of this node, by the policies of the job, its kind and its queue. A conflict is an
    /// ordinary failure, because nobody can run the job again within its attempt.
    async fn settlement<S: Store>(&self, node: &Incarnation<S>) -> Result<Settlement> {
        let Self { fence, error } = self;
        let detail = insist("look at a job of an external worker", || node.store.show(fence.id)).await?;
        let (mut kind, mut queue) = (String::new(), String::new());
        let verdict = match detail.filter(|detail| detail.version == fence.version) {
            Some(detail) => {
                (kind, queue) = (detail.summary.kind.clone(), detail.summary.queue.clone());
                decide(node, error, &job(node.messages.codecs.detail(detail)))
            }
            // It is no longer in this worker's hands, and the store will say so.
            None => Verdict::Retry(Duration::ZERO),
        };
        let settlement = Settlement::new(*fence, verdict).error(error.message(), error.detail_text());
        Ok(node.messages.codecs.settlement(settlement, &kind, &queue))
    }
}

fn decide<S: Store>(node: &Incarnation<S>, error: &JobError, job: &Job) -> Verdict {
    let handled = node.registry.get(&job.kind).map(|kind| &kind.options);
    let options = handled.or_else(|| node.failing.kinds.get(&job.kind)).cloned().unwrap_or_default();
    match node.failing.decide(error, job, &options, u32::MAX) {
        Decision::Later(delay) => Verdict::Retry(delay),
        Decision::AtOnce => Verdict::Retry(Duration::ZERO),
        Decision::Never => Verdict::Dead,
    }
}

/// The job as a handler would have seen it.
fn job(detail: JobDetail) -> Job {
    let JobDetail { summary, version, headers, payload, terms, .. } = detail;
    let JobSummary { id, seq, kind, queue, priority, attempt, max_attempts, created_at, .. } = summary;
    Job {
        id,
        seq,
        version,
        kind,
        queue,
        priority,
        attempt,
        max_attempts,
        payload,
        headers,
        terms,
        // It has been started.
        admitted: true,
        created_at,
        place: RowPlace::default(),
    }
}
