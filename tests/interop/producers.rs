use std::collections::BTreeSet;

use jobwright::internal::wire_testing;
use serde_json::Value;

use crate::interop::programs::Stage;

/// Jobs are submitted twice under the same ids, as after a failure: they are identical to the byte.
pub(crate) async fn submits_jobs_that_we_read(stage: &Stage) {
    let submit = stage.broker.names.submit();
    stage.broker.declare(&submit).await;
    let mut rounds = Vec::new();
    for _ in 0..2 {
        let lines = stage.run("producer", &["send-invoice", "3", "order", "billing"]).await.lines();
        assert_eq!(lines, ["submitted order-1", "submitted order-2", "submitted order-3", "confirmed 3"]);
        let mut round = Vec::new();
        for (properties, body) in stage.broker.take(&submit, 3).await {
            round.push(wire_testing::submission(properties, body).unwrap());
        }
        rounds.push(round);
    }
    let mut ids = BTreeSet::new();
    for (n, (first, second)) in rounds[0].iter().zip(&rounds[1]).enumerate() {
        let message = &first.message;
        assert_eq!((message.id, first.digest), (second.message.id, second.digest));
        assert_eq!((message.kind.as_str(), message.queue.as_str()), ("send-invoice", "billing"));
        assert_eq!((message.priority, message.max_attempts), (0, 5));
        assert_eq!(message.headers["messageId"], format!("order-{}", n + 1));
        let payload: Value = message.payload.decode().unwrap();
        assert_eq!(message.payload.content_type(), "application/json");
        assert_eq!(payload["n"], n + 1);
        assert!(payload["text"].as_str().unwrap().starts_with("Grüezi"), "{payload}");
        ids.insert(message.id);
    }
    assert_eq!(ids.len(), 3);
}

pub(crate) async fn missing_parts_are_named(stage: &Stage) {
    // No queue: nothing may be reported as sent.
    let ended = stage.run("producer", &["kind", "1"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.errors.contains("there is no queue"), "{ended:?}");
    let ended = stage.run_without_url("producer", &["kind", "1"]).await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.errors.contains("AMQP_URL is not set"), "{ended:?}");
    assert_eq!(stage.run("producer", &["kind"]).await.code, Some(2));
}
