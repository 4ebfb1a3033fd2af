//! Panics in the engine's tasks. Nothing in them should panic, but the subscriber that logs is the program's code, and can be made to.

use std::fmt::{Debug, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jobwright::{CommandExecutor, Outcome};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::support::environment::{PATIENCE, World, lease, quick};
use crate::support::jobs::job;
use crate::support::postgres::Pg;
use crate::support::{TestDb, eventually};

/// Panics once, when this text is logged, and whenever a panic is logged. So does a subscriber whose lock was poisoned by the first panic.
struct PanicsAt {
    text: &'static str,
    times: Arc<AtomicUsize>,
}

impl<S: Subscriber> Layer<S> for PanicsAt {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
                if field.name() == "message" {
                    write!(self.0, "{value:?}").unwrap();
                }
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        let first = text.0.contains(self.text) && self.times.fetch_add(1, Ordering::SeqCst) == 0;
        assert!(!first && !text.0.contains("a task of the executor panicked"), "on purpose");
    }
}

/// Counts how often this was logged; the first time panicked.
fn panics_at(text: &'static str) -> Arc<AtomicUsize> {
    let times = Arc::<AtomicUsize>::default();
    tracing_subscriber::registry().with(PanicsAt { text, times: times.clone() }).init();
    times
}

/// Without its monitor an executor would silently leave the jobs of dead nodes where they are. Everything else goes on meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_helper_that_panicked_begins_again() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let times = panics_at("released jobs of dead nodes");
    let executor = CommandExecutor::builder(db.messages().await)
        .config(lease(5))
        .handle("kind", |_| async { Ok(Outcome::Done) })
        .queue("elsewhere", 1)
        .start()
        .await
        .unwrap();
    let jobs = db.jobs();
    for round in 1..=2 {
        let id = jobs.send(job()).await;
        let node = jobs.node().await;
        assert_eq!(jobs.take_one(node).await.id, id);
        db.bury(node).await;
        eventually(PATIENCE, async || jobs.all().await.iter().all(|row| row.owner.is_none())).await;
        eventually(PATIENCE, async || times.load(Ordering::SeqCst) >= round).await;
        let heir = jobs.node().await;
        let back = jobs.take_one(heir).await;
        assert_eq!(back.id, id);
        jobs.finish(heir, &back).await;
    }
    assert_eq!(executor.stats().leases_lost, 0);
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// The dispatcher may have claimed jobs that were not started.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_dispatcher_panicked_registers_again() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let times = panics_at("jobs could not be claimed");
    let executor = CommandExecutor::builder(db.messages().await)
        .config(quick())
        .handle("kind", |_| async { Ok(Outcome::Done) })
        .start()
        .await
        .unwrap();
    db.raw("alter function {schema}.hold_node rename to away").await;
    eventually(PATIENCE, async || times.load(Ordering::SeqCst) > 0).await;
    db.raw("alter function {schema}.away rename to hold_node").await;
    eventually(PATIENCE, async || executor.stats().leases_lost > 0).await;
    let id = db.jobs().send(job()).await;
    db.gone(id).await;
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
}
