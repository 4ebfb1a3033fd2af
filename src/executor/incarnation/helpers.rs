//! What runs beside dispatchers, workers and completer, and what becomes of a task that panics.
//!
//! Nothing in the engine should panic, but code of the program runs in it too, such as what collects its logs. Nobody would miss a task that is gone, and an
//! executor without its lock monitor or a dispatcher looks well and does half of its work. A helper owns nothing, so it begins again by itself, and
//! all others go on. Who may have claimed jobs that nobody started can't begin again: then the node ends, gives back what it owns, and registers anew.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Incarnation;
use crate::backoff::Reconnect;
use crate::executor::{
    Settings, admission, broker, clock, expiry, listener, monitor, pruner, scheduler, telling, timers, upkeep,
};
use crate::message::local::LocalExecutor;
use crate::panic::text;
use crate::store::Store;

/// Longest pause before a helper that panicked begins again. One that ran for longer begins again soon.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What helpers begin with, beside their node.
struct Means {
    local: Weak<dyn LocalExecutor>,
    patience: monitor::Patience,
    /// Queues of the table that are sent to the broker.
    outbound: Vec<String>,
    /// An external worker is late.
    late: Arc<Notify>,
    /// A clock was set.
    stepped: Arc<Notify>,
    /// Deadline of one call to the store.
    straggler: Duration,
    quit: CancellationToken,
}

/// Begins a helper. It must not keep the node alive.
type Begin<S> = fn(&Arc<Incarnation<S>>, &Means) -> BoxFuture<'static, ()>;

impl<S: Store> Incarnation<S> {
    /// Starts everything that runs beside dispatchers, workers and completer, until `quit`.
    pub(super) fn start_helpers(self: &Arc<Self>, settings: &Settings<S>, quit: &CancellationToken) -> TaskTracker {
        let local: Arc<dyn LocalExecutor> = self.clone();
        let means = Arc::new(Means {
            local: Arc::downgrade(&local),
            patience: monitor::Patience { lease: settings.node.lease, quarantine: settings.quarantine },
            outbound: broker::outbound(&settings.external).collect(),
            late: Arc::default(),
            stepped: Arc::default(),
            straggler: settings.call_timeout,
            quit: quit.clone(),
        });
        self.wakeup().register(means.local.clone());
        let helpers = TaskTracker::new();
        let start = |name, begin: Begin<S>| {
            let (node, means) = (self.this.clone(), means.clone());
            helpers.spawn(again(name, quit.clone(), move || node.upgrade().map(|node| begin(&node, &means))));
        };
        start("the listener", |node, with| {
            listener::run(node.store.clone(), with.local.clone(), with.quit.clone()).boxed()
        });
        start("timers", |node, with| {
            let (hint, quit) = (node.timer_hint.clone(), with.quit.clone());
            timers::run(node.store.clone(), node.wakeup().clone(), hint, node.poll_interval, quit).boxed()
        });
        start("expiry", |node, with| {
            let (hint, quit) = (node.expiry_hint.clone(), with.quit.clone());
            expiry::run(node.store.clone(), node.wakeup().clone(), hint, node.poll_interval, quit).boxed()
        });
        start("usage", |node, with| telling::tell(node.this.clone(), node.limits.clone(), with.quit.clone()).boxed());
        start("admission", |node, with| admission::run(node.clone(), with.outbound.clone(), with.quit.clone()).boxed());
        start("the scheduler", |node, with| {
            let (hint, quit) = (node.schedule_hint.clone(), with.quit.clone());
            scheduler::run(node.store.clone(), node.wakeup().clone(), hint, node.poll_interval, quit).boxed()
        });
        start("the lock monitor", |node, with| {
            let (late, quit) = (with.late.clone(), with.quit.clone());
            monitor::run(node.store.clone(), node.id, node.wakeup().clone(), with.patience, late, quit).boxed()
        });
        start("the clock", |node, with| {
            clock::run(node.store.clone(), node.wakeup().clone(), with.stepped.clone(), with.quit.clone()).boxed()
        });
        start("upkeep", |node, with| {
            let bells = upkeep::Bells {
                timers: node.timer_hint.clone(),
                expiry: node.expiry_hint.clone(),
                gates: node.in_flight.gate.clone(),
                schedules: node.schedule_hint.clone(),
                external: with.late.clone(),
                clock: with.stepped.clone(),
            };
            upkeep::run(node.store.clone(), bells, node.poll_interval, with.quit.clone()).boxed()
        });
        start("the pruner", |node, with| {
            pruner::run(node.store.clone(), node.counters.clone(), with.quit.clone()).boxed()
        });
        start("the state of the broker", |node, with| match node.messages.broker() {
            Some(broker) => {
                let (local, quit) = (with.local.clone(), with.quit.clone());
                broker::follow(broker.clone(), node.store.clone(), node.id, local, quit).boxed()
            }
            None => std::future::ready(()).boxed(),
        });
        start("cancellations", |node, with| {
            let (cancellations, in_flight) = (node.cancellations.clone(), node.in_flight.clone());
            let (store, id, quit) = (node.store.clone(), node.id, with.quit.clone());
            async move { cancellations.watch(&*store, id, &in_flight, quit).await }.boxed()
        });
        start("ends of cancelled jobs", |node, with| {
            let (store, id, quit) = (node.store.clone(), node.id, with.quit.clone());
            let in_flight = node.in_flight.clone();
            async move { in_flight.ends.run(&*store, id, &in_flight.gate, quit).await }.boxed()
        });
        start("reconciliation", |node, with| {
            let (node, straggler, quit) = (node.clone(), with.straggler, with.quit.clone());
            async move {
                node.in_flight.reconcile(node.store.clone(), node.id, &node.claims, straggler, quit).await;
            }
            .boxed()
        });
        helpers.close();
        helpers
    }

    /// A task that claims. If it panics, the node ends and registers anew.
    pub(in crate::executor) fn watched<T>(
        &self,
        name: &'static str,
        task: T,
    ) -> impl Future<Output = ()> + Send + use<T, S>
    where
        T: Future<Output = ()> + Send,
    {
        let refused = self.refused.clone();
        AssertUnwindSafe(task).catch_unwind().map(move |ended| {
            if let Err(panic) = ended {
                let panic = text(&*panic);
                tracing::error!(
                    task = name,
                    panic,
                    "a task of the executor panicked; stopping all its work to register anew"
                );
                refused.cancel();
            }
        })
    }
}

/// Runs a task, and again after a while whenever it panics, until `quit` or until there is nothing to begin with.
pub(in crate::executor) async fn again<T: Future<Output = ()>>(
    name: &'static str,
    quit: CancellationToken,
    begin: impl Fn() -> Option<T>,
) {
    let mut delays = Reconnect::new(LONGEST_PAUSE);
    while let Some(task) = begin() {
        let began = Instant::now();
        let Err(panic) = AssertUnwindSafe(task).catch_unwind().await else { return };
        if began.elapsed() > LONGEST_PAUSE {
            delays.reset();
        }
        let pause = delays.next_delay();
        let panic = text(&*panic);
        tracing::error!(task = name, panic, ?pause, "a task of the executor panicked; it begins again");
        tokio::select! {
            () = quit.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}
