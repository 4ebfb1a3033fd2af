//! The tasks that run beside dispatchers, workers and completer.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[cfg(feature = "rabbitmq")]
use crate::executor::broker;
use crate::executor::groups::admission::Admission;
use crate::executor::groups::usage_reporter;
use crate::executor::handler::external_queue::outbound;
use crate::executor::lifecycle::settings::Settings;
use crate::executor::maintenance::clock::{self, ClockRepair};
use crate::executor::maintenance::expiry::Expiry;
use crate::executor::maintenance::external_leases::ExternalLeases;
use crate::executor::maintenance::look_ahead::LookAhead;
use crate::executor::maintenance::monitor::{LockMonitor, MonitorConfig};
use crate::executor::maintenance::periodic::Driver;
use crate::executor::maintenance::pruner::{self, Pruner};
use crate::executor::maintenance::reconciler::{self, Reconciler};
use crate::executor::maintenance::scheduler::Scheduler;
use crate::executor::maintenance::timers::Timers;
use crate::executor::maintenance::{failing, kinds, listener};
use crate::executor::metrics::releases::ReleaseReason;
use crate::executor::node::tasks::again;
use crate::executor::node::{Node, in_flight};
use crate::message::local::LocalExecutor;
use crate::store::Hint;
use crate::store::nodes::{ADMISSION, TIMERS};

/// What helpers start with, besides their node.
struct HelperDeps {
    local: Weak<dyn LocalExecutor>,
    patience: MonitorConfig,
    /// Queues of the table whose jobs are sent to the broker.
    outbound: Vec<String>,
    /// The deadline of one call to the store.
    straggler: Duration,
    quit: CancellationToken,
}

/// Starts a helper. The future must not keep the node alive.
type Begin = fn(&Arc<Node>, &HelperDeps) -> BoxFuture<'static, ()>;

/// Starts the tasks that run beside dispatchers, workers and completer, until `quit`.
pub(crate) fn start(node: &Arc<Node>, settings: &Settings, quit: &CancellationToken) -> TaskTracker {
    let local: Arc<dyn LocalExecutor> = node.clone();
    let deps = Arc::new(HelperDeps {
        local: Arc::downgrade(&local),
        patience: MonitorConfig { lease: settings.node.lease, quarantine: settings.quarantine },
        outbound: outbound(&settings.external).collect(),
        straggler: settings.call_timeout,
        quit: quit.clone(),
    });
    node.wakeup.register(deps.local.clone());
    let helpers = TaskTracker::new();
    let start = |name, begin: Begin| {
        let (node, deps) = (node.this.clone(), deps.clone());
        let begin = move |restarted: bool| {
            let node = node.upgrade()?;
            if restarted {
                check_everything(&node);
            }
            Some(begin(&node, &deps))
        };
        helpers.spawn(again(name, quit.clone(), begin));
    };
    start("the listener", |node, with| {
        let state = node.failing.task("listener", None, listener::FAILED);
        let hears = node.signals.hears.clone();
        listener::run(node.store.clone(), with.local.clone(), hears, state, with.quit.clone()).boxed()
    });
    start("usage", |node, with| usage_reporter::run(node.this.clone(), node.limits.clone(), with.quit.clone()).boxed());
    start("kinds left alone", |node, with| {
        kinds::run(node.this.clone(), node.breakers.clone(), with.quit.clone()).boxed()
    });
    start("failing tasks", |node, with| {
        failing::run(node.this.clone(), node.failing.clone(), with.quit.clone()).boxed()
    });
    start_maintenance(&start);
    #[cfg(feature = "rabbitmq")]
    start("the state of the broker", |node, with| match &node.broker {
        Some(broker) => {
            let (local, quit) = (with.local.clone(), with.quit.clone());
            broker::mode::follow(broker.clone(), node.store.clone(), node.id, local, quit).boxed()
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
        async move { in_flight.ended_handlers.run(&*store, id, &in_flight.admission_due, quit).await }.boxed()
    });
    start("reconciliation", |node, with| {
        let (node, straggler, quit) = (node.clone(), with.straggler, with.quit.clone());
        async move {
            let released = |jobs| {
                node.counters.releases.add_many(ReleaseReason::ClaimLost.as_str(), jobs);
                node.wakeup.notify([Hint::Any]);
            };
            let state = node.failing.task("reconciliation", None, in_flight::FAILED);
            node.in_flight.reconcile(node.store.clone(), node.id, straggler, released, state, quit).await;
        }
        .boxed()
    });
    helpers.close();
    helpers
}

/// Wakes all helpers.
fn check_everything(node: &Node) {
    node.hint(&Hint::Any);
    node.in_flight.suspect();
    node.in_flight.ended_handlers.check();
    node.signals.notify_all();
    node.limits.ended.notify_one();
}

/// Returns the driver of a task, whose failures the node's row shows.
fn driver(node: &Node, with: &HelperDeps, task: &'static str, poll: Duration, signal: Arc<Notify>) -> Driver {
    Driver::new(poll, signal, with.quit.clone()).shown(task, node.failing.clone())
}

/// Starts the periodic tasks.
fn start_maintenance(start: &impl Fn(&'static str, Begin)) {
    start("timers", |node, with| {
        let task = Timers { store: node.store.clone(), wakeup: node.wakeup.clone() };
        driver(node, with, TIMERS, node.poll_interval, node.signals.timers.clone()).drive_when_woken(task).boxed()
    });
    start("expiry", |node, with| {
        let task = Expiry::new(node.store.clone(), node.wakeup.clone());
        driver(node, with, "expiry", node.poll_interval, node.signals.expiry.clone()).drive_when_woken(task).boxed()
    });
    start("admission", |node, with| {
        let task = Admission::new(node, with.outbound.clone());
        let signal = node.in_flight.admission_due.clone();
        driver(node, with, ADMISSION, node.poll_interval, signal).drive(task).boxed()
    });
    start("the scheduler", |node, with| {
        let task = Scheduler::new(node.schedules.clone(), node.wakeup.clone(), node.poll_interval);
        let driver = driver(node, with, "schedules", node.poll_interval, node.signals.schedules.clone());
        // A test's clock may be put forward before this node hears of hints, and the first poll does not go by it.
        if node.schedules.has_own_clock() { driver.drive(task).boxed() } else { driver.drive_when_woken(task).boxed() }
    });
    start("the lock monitor", |node, with| {
        let task = LockMonitor::new(node, with.patience);
        let driver = driver(node, with, "lock monitor", with.patience.interval(), node.signals.monitor.clone());
        driver.retry(with.patience.interval()).drive_after(with.patience.patience(), task).boxed()
    });
    start("leases of external workers", |node, with| {
        let task =
            ExternalLeases { store: node.store.clone(), wakeup: node.wakeup.clone(), counters: node.counters.clone() };
        let driver = driver(node, with, "external leases", node.poll_interval, node.signals.external.clone());
        // However rare polls are.
        let driver = driver.fallback(12 * with.patience.lease).retry(with.patience.interval());
        driver.drive_when_woken(task).boxed()
    });
    start("the clock", |node, with| {
        let task =
            ClockRepair { store: node.store.clone(), schedules: node.schedules.clone(), wakeup: node.wakeup.clone() };
        let driver = driver(node, with, "clock", clock::INTERVAL, node.signals.clock.clone());
        driver.retry(clock::INTERVAL / 20).drive_after(ClockRepair::first(), task).boxed()
    });
    start("maintenance", |node, with| {
        let task = LookAhead::new(node, with.outbound.clone(), with.patience.interval());
        let driver = driver(node, with, "poll", node.poll_interval, node.signals.poll.clone());
        driver.drive(task).boxed()
    });
    start("the reconciler", |node, with| {
        let task = Reconciler::new(node.store.clone(), node.wakeup.clone(), node.signals.reconciliation.clone());
        let driver = driver(node, with, "permits", reconciler::INTERVAL, Arc::default());
        driver.retry(reconciler::INTERVAL).drive_after(Reconciler::first(), task).boxed()
    });
    start("the pruner", |node, with| {
        let task = Pruner::new(node.store.clone(), node.counters.clone());
        let driver = driver(node, with, "pruner", pruner::INTERVAL, Arc::default());
        driver.retry(pruner::INTERVAL / 10).drive_after(Pruner::first(), task).boxed()
    });
}
