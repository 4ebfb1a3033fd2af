//! Probes.

use std::fmt::Write as _;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jobwright::telemetry::{Health, HealthState, Telemetry};
use serde_json::json;

use crate::later::Later;

/// The answer to a probe before there is an executor.
const WAITS: &str = "it has not reached its database yet";

pub(crate) async fn live(State(telemetry): State<Later<Telemetry>>, query: RawQuery, headers: HeaderMap) -> Response {
    match telemetry.get().map(Telemetry::health) {
        Some(health) => answer(health.is_live, &health, &query, &headers),
        None => "ok\n".into_response(),
    }
}

pub(crate) async fn ready(State(telemetry): State<Later<Telemetry>>, query: RawQuery, headers: HeaderMap) -> Response {
    match telemetry.get().map(Telemetry::health) {
        Some(health) => answer(health.is_ready(), &health, &query, &headers),
        None => waits(&headers),
    }
}

pub(crate) async fn started(
    State(telemetry): State<Later<Telemetry>>,
    query: RawQuery,
    headers: HeaderMap,
) -> Response {
    match telemetry.get().map(Telemetry::health) {
        Some(health) => answer(health.is_started, &health, &query, &headers),
        None => waits(&headers),
    }
}

fn waits(headers: &HeaderMap) -> Response {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    if wants_json(headers) {
        let check = json!({"name": "executor", "state": "failed", "text": WAITS});
        return (status, Json(json!({"passes": false, "checks": [check]}))).into_response();
    }
    (status, format!("[-]executor failed: {WAITS}\nfailed\n")).into_response()
}

fn wants_json(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains("application/json"))
}

/// Answers a probe. Its checks are those of Kubernetes in form: a sign, a name, a result.
fn answer(passes: bool, health: &Health, RawQuery(query): &RawQuery, headers: &HeaderMap) -> Response {
    let status = if passes { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    if wants_json(headers) {
        let checks: Vec<_> = health
            .checks
            .iter()
            .map(|check| json!({"name": check.name, "state": check.state.as_str(), "text": check.text}))
            .collect();
        return (status, Json(json!({"passes": passes, "checks": checks}))).into_response();
    }
    let verbose = query.as_deref().is_some_and(|query| query.split('&').any(|word| word.starts_with("verbose")));
    let mut body = String::new();
    if verbose || !passes {
        for check in &health.checks {
            let sign = match check.state {
                HealthState::Ok => '+',
                HealthState::Degraded => '~',
                _ => '-',
            };
            // A reason may have lines of its own.
            let text = check.text.replace(['\n', '\r'], " ");
            // Writing to a text can't fail.
            let _ = writeln!(body, "[{sign}]{} {}: {text}", check.name, check.state);
        }
    }
    body.push_str(if passes { "ok\n" } else { "failed\n" });
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response()
}
