//! The set-up of OpenTelemetry: spans go to a collector by OTLP over HTTP.

use std::time::Duration;

use async_trait::async_trait;
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::support::Result;

/// How long a collector may take for an answer.
const DEADLINE: Duration = Duration::from_secs(5);

/// Makes the spans of this program go to the collector that `OTEL_EXPORTER_OTLP_ENDPOINT` names, and otherwise to `http://localhost:4318`. Shut the result
/// down at the end, or the last spans stay here.
pub(crate) fn start() -> Result<SdkTracerProvider> {
    let exporter = SpanExporter::builder().with_http().with_http_client(Client::new()).build()?;
    let service = Resource::builder().with_service_name("orders").build();
    // Exports from a thread of its own, in batches.
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(service).build();
    // Only spans of this program. The library has a span `job` for its log, which begins before a middleware knows the trace.
    let ours = filter_fn(|metadata| metadata.target().starts_with(env!("CARGO_CRATE_NAME")));
    let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("orders")).with_filter(ours);
    let level = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("error,lapin=off"));
    let log = tracing_subscriber::fmt::layer().with_filter(level);
    tracing_subscriber::registry().with(spans).with(log).try_init()?;
    Ok(provider)
}

/// A blocking client, as the thread that exports wants it. The feature `reqwest-blocking-client` of `opentelemetry-otlp` has one too, and TLS.
#[derive(Debug)]
struct Client(ureq::Agent);

impl Client {
    fn new() -> Self {
        let config = ureq::Agent::config_builder().timeout_global(Some(DEADLINE)).http_status_as_error(false);
        Self(config.build().new_agent())
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, body) = request.into_parts();
        let answer = self.0.run(Request::from_parts(head, &body[..]))?;
        let (head, mut body) = answer.into_parts();
        Ok(Response::from_parts(head, body.read_to_vec()?.into()))
    }
}
