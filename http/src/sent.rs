//! The metrics of a process that sends.

use std::fmt;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use jobwright::telemetry::{Sent, SentMetrics};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::encode::{Writer, answer};
use crate::later::Later;

/// The names of the row for the pairs that have none of their own. A kind is never empty.
const OTHER: (&str, &str) = ("(other)", "");

pub(crate) async fn metrics(State(sent): State<Later<Sent>>, headers: HeaderMap) -> Response {
    answer(&headers, Before(sent.get().map(Sent::read)))
}

/// The metrics, if there are message services yet.
#[derive(Debug)]
struct Before(Option<SentMetrics>);

impl Collector for Before {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |sent| encode(sent, &mut Writer(encoder)))
    }
}

/// Writes the rows, which begin with that of the other pairs: a counter that is not there until the first job is sent says nothing of that job.
pub(crate) fn encode(sent: &SentMetrics, to: &mut Writer<'_>) -> fmt::Result {
    let labels = |queue, kind| vec![("queue", queue), ("kind", kind)];
    let others = (labels(OTHER.0, OTHER.1), sent.others);
    let jobs = sent.jobs.iter().map(|jobs| (labels(jobs.queue.as_str(), jobs.kind.as_str()), jobs.sent));
    to.counter("jobwright_jobs_sent", "Jobs sent by this process", std::iter::once(others).chain(jobs))
}
