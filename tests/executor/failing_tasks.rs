//! Tasks of a node that fail again and again: its row, the doctor and `why` tell it, without its log.

use std::time::Duration;

use jobwright::admin::Reason;
use jobwright::{CommandExecutor, Outcome};

use crate::executor::refused_outcomes::Refusing;
use crate::support::environment::{PATIENCE, quick};
use crate::support::eventually;
use crate::support::jobs::job;

/// Triggers that refuse stand for any cause.
pub(crate) async fn claims_that_fail_are_shown_until_they_succeed<W: Refusing>(db: &W) {
    let messages = db.messages().await;
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .queue("default", 2)
        .handle("kind", |_| async { Ok(Outcome::Done) })
        .start()
        .await
        .unwrap();
    db.refuse_claims().await;
    let id = db.jobs().send(job()).await;
    let admin = messages.admin();
    let failing = async || admin.nodes().await.unwrap().remove(0).failing;
    eventually(PATIENCE, async || !failing().await.is_empty()).await;
    let shown = failing().await;
    let [task] = &shown[..] else { panic!("{shown:?}") };
    assert_eq!((task.task.as_str(), task.queue.as_deref()), ("claims", Some("default")));
    assert_eq!(task.failed, "jobs could not be claimed");
    assert!(task.error.contains("not this one"), "{task:?}");

    let reasons = admin.why(id).await.unwrap().unwrap().reasons;
    let [reason @ Reason::Failing { task: told, .. }] = &reasons[..] else { panic!("{reasons:?}") };
    assert_eq!(told, task);
    assert!(
        reason.lasts() && reason.to_string().contains("jobs could not be claimed (queue \"default\"): "),
        "{reason}"
    );
    let text = serde_json::to_value(reason).unwrap();
    assert_eq!(
        (&text["reason"], &text["task"], &text["queue"]),
        (&"failing".into(), &"claims".into(), &"default".into())
    );
    let health = executor.telemetry().health();
    let told = health.checks.iter().filter(|check| check.text.contains("not this one")).count();
    assert!(!health.is_ready() && told == 1, "the check of its queue says it: {health:?}");

    db.allow_claims().await;
    db.drained().await;
    eventually(PATIENCE, async || failing().await.is_empty()).await;
    assert!(executor.telemetry().health().checks.iter().all(|check| !check.text.contains("not this one")));
    executor.shutdown(Duration::ZERO).await.unwrap();
}
