//! The text of metrics.

use std::fmt;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jobwright::telemetry::Histogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Names and values that tell the rows of a metric apart.
pub(crate) type Labels<'a> = Vec<(&'static str, &'a str)>;

/// Returns the answer with these metrics, in the form that the client asks for.
pub(crate) fn answer(headers: &HeaderMap, metrics: impl Collector) -> Response {
    let accepts = |form: &str| {
        let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        accepted.any(|value| value.contains(form))
    };
    let mut registry = Registry::default();
    registry.register_collector(Box::new(metrics));
    let mut body = String::new();
    let (form, written) = if accepts("application/openmetrics-text") {
        (OPEN_METRICS, text::encode(&mut body, &registry))
    } else {
        (PROMETHEUS, prometheus_text::encode(&mut body, &registry))
    };
    match written {
        Ok(()) => ([(header::CONTENT_TYPE, form)], body).into_response(),
        Err(fmt::Error) => (StatusCode::INTERNAL_SERVER_ERROR, "the metrics could not be written\n").into_response(),
    }
}

/// Writes metrics, each with its help and all its rows.
pub(crate) struct Writer<'a>(pub(crate) DescriptorEncoder<'a>);

impl Writer<'_> {
    /// Writes a counter. Its name gets `_total`.
    pub(crate) fn counter<'a>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (Labels<'a>, u64)>,
    ) -> fmt::Result {
        self.rows(name, help, MetricType::Counter, rows, |row, value| {
            row.encode_counter(value, None::<&Exemplar<Labels<'_>, f64>>)
        })
    }

    /// Writes counters without labels: name, help and value of each.
    pub(crate) fn counters<const N: usize>(&mut self, all: [(&str, &str, u64); N]) -> fmt::Result {
        all.into_iter().try_for_each(|(name, help, value)| self.counter(name, help, [(Labels::new(), value)]))
    }

    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method itself has one lifetime only")]
    pub(crate) fn gauge<'a>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (Labels<'a>, f64)>,
    ) -> fmt::Result {
        self.rows(name, help, MetricType::Gauge, rows, |row, value| row.encode_gauge(value))
    }

    pub(crate) fn histogram<'a>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (Labels<'a>, &'a Histogram)>,
    ) -> fmt::Result {
        self.rows(name, help, MetricType::Histogram, rows, |row, value| {
            row.encode_histogram::<Labels<'_>>(value.sum, value.count(), &value.buckets, None)
        })
    }

    fn rows<'a, V>(
        &mut self,
        name: &str,
        help: &str,
        of: MetricType,
        rows: impl IntoIterator<Item = (Labels<'a>, V)>,
        write: impl Fn(&mut MetricEncoder<'_>, &V) -> fmt::Result,
    ) -> fmt::Result {
        let mut rows = rows.into_iter().peekable();
        // A name without a row says nothing.
        if rows.peek().is_none() {
            return Ok(());
        }
        let mut metric = self.0.encode_descriptor(name, help, None, of)?;
        for (labels, value) in rows {
            if labels.is_empty() {
                write(&mut metric, &value)?;
            } else {
                write(&mut metric.encode_family(&labels)?, &value)?;
            }
        }
        Ok(())
    }
}
