//! The example against a receiver of OTLP over HTTP, in place of a collector.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message;

/// Runs the program with a database until it ends, and returns the spans that the receiver got.
async fn spans_of(database: Option<&str>) -> Vec<Span> {
    let received = Arc::new(Mutex::new(Vec::new()));
    let to = received.clone();
    let receive = async move |body: Bytes| {
        let request = ExportTraceServiceRequest::decode(body).unwrap();
        let resources = request.resource_spans.into_iter();
        to.lock().unwrap().extend(resources.flat_map(|of| of.scope_spans).flat_map(|scope| scope.spans));
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = axum::serve(listener, Router::new().route("/v1/traces", post(receive)));
    let serving = tokio::spawn(served.into_future());
    let mut program = Command::new(env!("CARGO_BIN_EXE_jobwright-example-opentelemetry"));
    program.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}")).env_remove("DATABASE_URL");
    program.envs(database.map(|url| ("DATABASE_URL", url)));
    let done = tokio::task::spawn_blocking(move || program.output().unwrap()).await.unwrap();
    assert!(done.status.success(), "{done:?}");
    serving.abort();
    received.lock().unwrap().clone()
}

/// Returns what a span says of its job: kind, queue, attempt and outcome.
fn facts(span: &Span) -> [String; 4] {
    let attributes: BTreeMap<&str, String> = span
        .attributes
        .iter()
        .map(|attribute| {
            let text = match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
                Some(Value::StringValue(text)) => text.clone(),
                Some(Value::IntValue(number)) => number.to_string(),
                other => format!("{other:?}"),
            };
            (attribute.key.as_str(), text)
        })
        .collect();
    ["kind", "queue", "attempt", "outcome"]
        .map(|name| attributes.get(&*format!("jobwright.{name}")).cloned().unwrap_or_default())
}

async fn check(database: Option<&str>) {
    let spans = spans_of(database).await;
    let of = |kind: &str, attempt: &str| {
        let mut found = spans.iter().filter(|span| {
            let [of_kind, _, of_attempt, _] = facts(span);
            (&*of_kind, &*of_attempt) == (kind, attempt)
        });
        let span = found.next().unwrap_or_else(|| panic!("no span of {kind}, attempt {attempt}: {spans:?}"));
        assert!(found.next().is_none(), "{kind}, attempt {attempt} has several spans");
        span
    };
    assert_eq!(spans.len(), 4, "{spans:?}");
    let order = spans.iter().find(|span| span.name == "place order").unwrap();
    assert!(order.parent_span_id.is_empty() && order.kind == SpanKind::Producer as i32, "{order:?}");
    let (failed, invoice, mail) = (of("send-invoice", "1"), of("send-invoice", "2"), of("send-mail", "1"));
    for (span, parent, outcome) in [(failed, order, "retry"), (invoice, order, "done"), (mail, invoice, "done")] {
        let [kind, queue, _, ended] = facts(span);
        assert_eq!((&*queue, &*ended, span.name.clone()), ("default", outcome, format!("process {kind}")));
        assert_eq!(span.trace_id, order.trace_id, "one trace");
        assert_eq!(span.parent_span_id, parent.span_id, "{kind} is a child of the span that sent it");
        assert_eq!(span.kind, SpanKind::Consumer as i32);
    }
    let status = |span: &Span| span.status.as_ref().map(|status| (status.code, status.message.clone()));
    assert_eq!(status(failed), Some((StatusCode::Error as i32, "the printer is jammed".to_owned())));
    assert_ne!(status(invoice).map(|(code, _)| code), Some(StatusCode::Error as i32));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_in_the_trace_of_its_sender() {
    check(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_in_the_trace_of_its_sender_on_postgres() {
    if std::env::var("JOBWRIGHT_TEST_EMBEDDED_ONLY").is_ok_and(|value| value == "1") {
        return;
    }
    check(Some(&std::env::var("DATABASE_URL").unwrap())).await;
}
