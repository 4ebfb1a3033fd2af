//! Jobs that external programs submit, taken in and run by one of our nodes.

use std::collections::BTreeMap;

use lapin::BasicProperties;

use crate::interop::programs::Stage;
use crate::interop::site::{HERE, Site};
use crate::support::environment::World as _;
use crate::support::{environment::PATIENCE, eventually};

const JOBS: usize = 20;

/// Each took effect once with its program's content, though it was submitted twice.
pub(crate) async fn a_job_submitted_twice_runs_once(stage: &Stage) {
    let site = Site::set(&stage.broker).await;
    let node = site.runs("send-invoice").await;
    let (name, ids) = (stage.language.name(), &stage.broker.prefix);
    let mut said: Vec<_> = (1..=JOBS).map(|n| format!("submitted {ids}-{n}")).collect();
    said.push(format!("confirmed {JOBS}"));
    for round in 1..=2_u64 {
        let lines = stage.run("producer", &["send-invoice", &JOBS.to_string(), ids, HERE]).await.lines();
        assert_eq!(lines, said);
        // A single queue, in order: when this one has run, all earlier submissions have been processed.
        let last = format!("last-{round}");
        site.submits(&last).await;
        eventually(PATIENCE, async || site.db.ledger().await.contains_key(&format!("test {last} null"))).await;
        site.db.drained().await;
        assert_eq!(node.stats().submitted, JOBS as u64 + round);
    }
    let aus = format!("Grüezi aus {}", if name == "java" { "Java" } else { "Python" });
    let expected: BTreeMap<_, _> = (1..=JOBS)
        .map(|n| format!(r#"{name} {ids}-{n} {{"n": {n}, "text": "{aus}"}}"#))
        .chain(["test last-1 null".to_owned(), "test last-2 null".to_owned()])
        .map(|line| (line, 1))
        .collect();
    assert_eq!(site.db.ledger().await, expected);
    let stats = node.shutdown(PATIENCE).await.unwrap();
    assert_eq!((stats.done, stats.failed, stats.messages_refused), (JOBS as u64 + 2, 0, 0));
    assert_eq!(stage.broker.waiting(&stage.broker.names.rejected()).await, 0);
}

impl Site<'_> {
    /// Submits a job of this id for the node of [`runs`](Site::runs).
    pub(crate) async fn submits(&self, id: &str) {
        let headers = [("queue", HERE), ("sender", "test")];
        let properties = BasicProperties::default()
            .with_message_id(id.into())
            .with_type("send-invoice".into())
            .with_content_type("application/json".into())
            .with_headers(crate::interop::broker::texts(&headers));
        self.client.publish((String::new(), self.client.names.submit(), properties, b"null".to_vec())).await;
    }
}
