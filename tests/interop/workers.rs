use jobwright::internal::engine::testing;
use jobwright::internal::wire_testing::{self, Report};
use jobwright::{Job, NewJob};
use serde_json::{Value, json};

use crate::interop::programs::Stage;

fn job(kind: &str) -> Job {
    let new = NewJob::json(kind, &json!({ "text": "Grüezi" })).queue("printing").header("tenant", "acme");
    testing::job(testing::message(new).unwrap(), 1, 7, 2, "2026-11-21T12:00:00Z".parse().unwrap())
}

/// Every way a job can end, each reported once, and nothing left at the broker.
pub(crate) async fn reads_our_messages_and_reports(stage: &Stage) {
    let broker = &stage.broker;
    let (work, reply) = (broker.names.external("printing"), broker.names.reply());
    broker.declare(&work).await;
    broker.declare(&reply).await;
    let jobs = ["print", "fail", "retry", "slow"].map(job);
    for job in &jobs {
        broker.publish(wire_testing::external(&broker.names, job)).await;
    }
    let lines = stage.run("worker", &["printing", "4", "20"]).await.lines();
    let [print, fail, retry, slow] = &jobs;
    assert_eq!(
        lines,
        [
            "ready printing".to_owned(),
            format!("done {} print attempt 2", print.id),
            format!("failed {} fail attempt 2", fail.id),
            format!("failed {} retry attempt 2", retry.id),
            format!("extend {}", slow.id),
            format!("done {} slow attempt 2", slow.id),
        ]
    );
    let mut reports = Vec::new();
    for (properties, body) in broker.take(&reply, 5).await {
        reports.push(wire_testing::report_on_external(properties, body).unwrap());
    }
    let result: Value = reports[0].result.as_ref().unwrap().decode().unwrap();
    assert_eq!(result["bytes"], print.payload.as_bytes().len());
    let seen: Vec<_> =
        reports.iter().map(|Report { fence, status, error, .. }| (*fence, *status, error.as_deref())).collect();
    assert_eq!(
        seen,
        [
            (print.fence(), "done", None),
            (fail.fence(), "failed", Some("told to fail")),
            (retry.fence(), "failed", Some("told to try again")),
            (slow.fence(), "extend", None),
            (slow.fence(), "done", None),
        ]
    );
    assert_eq!(broker.waiting(&work).await, 0);
}

pub(crate) async fn names_the_missing_tools(stage: &Stage) {
    let ended = stage.run("worker", &["printing"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.errors.contains("working failed"), "{ended:?}");
    let ended = stage.run_without_url("worker", &["printing"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.errors.contains("AMQP_URL is not set"), "{ended:?}");
    assert_eq!(stage.run("worker", &[]).await.code, Some(2));
    // Without a queue for reports, a job does not count as done.
    let work = stage.broker.names.external("printing");
    stage.broker.declare(&work).await;
    stage.broker.publish(wire_testing::external(&stage.broker.names, &job("print"))).await;
    let ended = stage.run("worker", &["printing", "1", "20"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    stage.broker.take(&work, 1).await;
}
