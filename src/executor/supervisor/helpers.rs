//! The tasks that run beside dispatchers, workers and completer.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backoff::jitter;
use crate::executor::broker;
use crate::executor::handler::external_queue::outbound;
use crate::executor::maintenance::admission::Admission;
use crate::executor::maintenance::clock::{self, ClockRepair};
use crate::executor::maintenance::expiry::Expiry;
use crate::executor::maintenance::external_leases::ExternalLeases;
use crate::executor::maintenance::look_ahead::{LookAhead, MaintenanceSignals};
use crate::executor::maintenance::monitor::{LockMonitor, MonitorConfig};
use crate::executor::maintenance::periodic::Driver;
use crate::executor::maintenance::pruner::{self, Pruner};
use crate::executor::maintenance::reconciler::{self, Reconciler};
use crate::executor::maintenance::scheduler::Scheduler;
use crate::executor::maintenance::timers::Timers;
use crate::executor::maintenance::{kinds, listener, usage_reporter};
use crate::executor::session::node_session::NodeSession;
use crate::executor::session::settings::Settings;
use crate::executor::session::tasks::again;
use crate::message::local::LocalExecutor;
use crate::store::{Hint, Store};

/// What helpers start with, besides their node.
struct HelperDeps {
    local: Weak<dyn LocalExecutor>,
    patience: MonitorConfig,
    /// Queues of the table whose jobs are sent to the broker.
    outbound: Vec<String>,
    /// Notified when an external worker is late.
    late: Arc<Notify>,
    /// Notified when a clock was set.
    stepped: Arc<Notify>,
    /// The deadline of one call to the store.
    straggler: Duration,
    quit: CancellationToken,
}

/// Starts a helper. The future must not keep the node alive.
type Begin<S> = fn(&Arc<NodeSession<S>>, &HelperDeps) -> BoxFuture<'static, ()>;

impl<S: Store> NodeSession<S> {
    /// Starts the tasks that run beside dispatchers, workers and completer, until `quit`.
    pub(crate) fn start_helpers(self: &Arc<Self>, settings: &Settings<S>, quit: &CancellationToken) -> TaskTracker {
        let local: Arc<dyn LocalExecutor> = self.clone();
        let deps = Arc::new(HelperDeps {
            local: Arc::downgrade(&local),
            patience: MonitorConfig { lease: settings.node.lease, quarantine: settings.quarantine },
            outbound: outbound(&settings.external).collect(),
            late: Arc::default(),
            stepped: Arc::default(),
            straggler: settings.call_timeout,
            quit: quit.clone(),
        });
        self.wakeup().register(deps.local.clone());
        let helpers = TaskTracker::new();
        let start = |name, begin: Begin<S>| {
            let (node, deps) = (self.this.clone(), deps.clone());
            let begin = move |restarted: bool| {
                let node = node.upgrade()?;
                if restarted {
                    node.check_everything(&deps);
                }
                Some(begin(&node, &deps))
            };
            helpers.spawn(again(name, quit.clone(), begin));
        };
        start("the listener", |node, with| {
            listener::run(node.store.clone(), with.local.clone(), with.quit.clone()).boxed()
        });
        start("usage", |node, with| {
            usage_reporter::run(node.this.clone(), node.limits.clone(), with.quit.clone()).boxed()
        });
        start("kinds left alone", |node, with| {
            kinds::run(node.this.clone(), node.breakers.clone(), with.quit.clone()).boxed()
        });
        start_maintenance(&start);
        start("the state of the broker", |node, with| match node.messages.broker() {
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
                let released = || node.wakeup().notify([Hint::Any]);
                node.in_flight.reconcile(node.store.clone(), node.id, straggler, released, quit).await;
            }
            .boxed()
        });
        helpers.close();
        helpers
    }

    /// Wakes all helpers.
    fn check_everything(&self, deps: &HelperDeps) {
        self.hint(&Hint::Any);
        self.in_flight.suspect();
        self.in_flight.ended_handlers.check();
        for signal in [&self.schedule_hint, &deps.late, &deps.stepped, &self.limits.ended] {
            signal.notify_one();
        }
    }
}

/// Starts the periodic tasks.
fn start_maintenance<S: Store>(start: &impl Fn(&'static str, Begin<S>)) {
    start("timers", |node, with| {
        let task = Timers { store: node.store.clone(), wakeup: node.wakeup().clone() };
        Driver::new(node.poll_interval, node.timer_hint.clone(), with.quit.clone()).drive(task).boxed()
    });
    start("expiry", |node, with| {
        let task = Expiry { store: node.store.clone(), wakeup: node.wakeup().clone() };
        Driver::new(node.poll_interval, node.expiry_hint.clone(), with.quit.clone()).drive(task).boxed()
    });
    start("admission", |node, with| {
        let task = Admission::new(node, with.outbound.clone());
        let signal = node.in_flight.admission_due.clone();
        Driver::new(node.poll_interval, signal, with.quit.clone()).drive(task).boxed()
    });
    start("the scheduler", |node, with| {
        let task = Scheduler::new(node.store.clone(), node.wakeup().clone(), node.poll_interval);
        Driver::new(node.poll_interval, node.schedule_hint.clone(), with.quit.clone()).drive(task).boxed()
    });
    start("the lock monitor", |node, with| {
        let task = LockMonitor::new(node.store.clone(), node.id, node.wakeup().clone(), with.patience);
        let driver = Driver::new(with.patience.interval(), Arc::default(), with.quit.clone());
        driver.retry(with.patience.interval()).drive(task).boxed()
    });
    start("leases of external workers", |node, with| {
        let task = ExternalLeases { store: node.store.clone(), wakeup: node.wakeup().clone() };
        let driver = Driver::new(with.patience.lease, with.late.clone(), with.quit.clone());
        driver.retry(with.patience.interval()).drive(task).boxed()
    });
    start("the clock", |node, with| {
        let task =
            ClockRepair { store: node.store.clone(), schedules: node.store.clone(), wakeup: node.wakeup().clone() };
        let driver = Driver::new(clock::INTERVAL, with.stepped.clone(), with.quit.clone());
        driver.retry(clock::INTERVAL / 20).drive_after(ClockRepair::first(), task).boxed()
    });
    start("maintenance", |node, with| {
        let signals = MaintenanceSignals {
            timers: node.timer_hint.clone(),
            expiry: node.expiry_hint.clone(),
            admission: node.in_flight.admission_due.clone(),
            schedules: node.schedule_hint.clone(),
            external: with.late.clone(),
            suspects: node.suspects_hint.clone(),
            clock: with.stepped.clone(),
        };
        let task = LookAhead::new(node.store.clone(), signals, node.poll_interval);
        let driver = Driver::new(node.poll_interval, Arc::default(), with.quit.clone());
        driver.drive_after(jitter(node.poll_interval), task).boxed()
    });
    start("the reconciler", |node, with| {
        let task = Reconciler::new(node.store.clone(), node.wakeup().clone());
        let driver = Driver::new(reconciler::INTERVAL, Arc::default(), with.quit.clone());
        driver.retry(reconciler::INTERVAL).drive_after(Reconciler::first(), task).boxed()
    });
    start("the pruner", |node, with| {
        let task = Pruner::new(node.store.clone(), node.counters.clone());
        let driver = Driver::new(pruner::INTERVAL, Arc::default(), with.quit.clone());
        driver.retry(pruner::INTERVAL / 10).drive_after(Pruner::first(), task).boxed()
    });
}
