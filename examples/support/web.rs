//! The web services of the examples as their clients see them, each on a database of its own.

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use jobwright::admin::{JobFilter, Page};
use jobwright::testing::{JobRun, RunOutcome, assert_sent};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::shop::{Bank, ChargeOrder, executor, put_schedules, routes, run};
use super::{Database, database};

async fn ask(db: &Database, request: Request<Body>) -> (StatusCode, Value) {
    let response = routes(db.messages().clone()).oneshot(request).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), 100_000).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

fn order(cents: i64) -> Request<Body> {
    let body = json!({ "customer": "Ada", "cents": cents }).to_string();
    Request::post("/orders").header("content-type", "application/json").body(Body::from(body)).unwrap()
}

async fn place(db: &Database, cents: i64) -> i64 {
    let (status, answer) = ask(db, order(cents)).await;
    assert_eq!(status, StatusCode::CREATED);
    answer["order"].as_i64().unwrap()
}

async fn is_paid(db: &Database, id: i64) -> bool {
    let request = Request::get(format!("/orders/{id}")).body(Body::empty()).unwrap();
    ask(db, request).await.1["paid"] == true
}

#[tokio::test]
async fn an_order_is_charged_by_its_job() {
    let Some(db) = database().await else { return };
    let id = place(&db, 1999).await;
    assert_sent(&db.sent().await.unwrap()).command(|charge: &ChargeOrder| charge.order == id).once();
    assert!(!is_paid(&db, id).await, "its job has not run yet");
    let mut runner = db.runner(|builder| executor(builder, Bank { limit: 10_000 })).await.unwrap();
    runner.drain().await.unwrap().expect_done();
    assert!(is_paid(&db, id).await);
}

#[tokio::test]
async fn a_declined_order_is_a_dead_letter() {
    let Some(db) = database().await else { return };
    let id = place(&db, 20_000).await;
    let mut runner = db.runner(|builder| executor(builder, Bank { limit: 10_000 })).await.unwrap();
    let summary = runner.drain().await.unwrap();
    let dead = |run: &JobRun| matches!(&run.end, RunOutcome::Dead(why) if why.contains("declined 20000 cents"));
    assert!(summary.of("charge-order").all(dead), "{summary:?}");
    assert!(!is_paid(&db, id).await);
}

#[tokio::test]
async fn an_order_that_is_not_stored_has_no_job() {
    let Some(db) = database().await else { return };
    let (status, _) = ask(&db, Request::post("/orders").body(Body::from("no order")).unwrap()).await;
    assert!(status.is_client_error());
    assert_sent(&db.sent().await.unwrap()).never();
    let missing = Request::get("/orders/4711").body(Body::empty()).unwrap();
    assert_eq!(ask(&db, missing).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn reminders_go_out_each_day() {
    let Some(db) = database().await else { return };
    put_schedules(db.messages()).await.unwrap();
    let mut runner = db.runner(|builder| executor(builder, Bank { limit: 0 })).await.unwrap();
    let day = std::time::Duration::from_secs(24 * 3600);
    assert_eq!(runner.drain_through(day).await.unwrap().fired.len(), 1);
}

/// The whole service: requests, jobs, probes, and a stop that loses nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_runs_and_stops() {
    let Some(db) = database().await else { return };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serves = tokio::spawn({
        let messages = db.messages().clone();
        async move {
            run(messages, listener, Bank { limit: 10_000 }, async { drop(stopped.await) })
                .await
                .map_err(|e| e.to_string())
        }
    });
    let id = place(&db, 500).await;
    let started = std::time::Instant::now();
    while !is_paid(&db, id).await {
        assert!(started.elapsed().as_secs() < 60, "not paid");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    stop.send(()).unwrap();
    serves.await.unwrap().unwrap();
    let left = db.messages().admin().list(&JobFilter::default(), &Page::default()).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}
