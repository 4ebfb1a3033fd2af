//! The processes, each behind its own proxies.

use std::sync::Mutex;

use crate::delivery::site::Site;
use crate::delivery::worker_process::{Orders, Role, Told, told};
use crate::support::process::{Sign, Worker};
use crate::support::proxy::Proxy;

/// Processes of each kind.
const MEMBERS: usize = 3;
/// 3 × 5 jobs each 30 ms: 500 a second.
const BATCH: usize = 5;
const PAUSE: u64 = 30;

/// One of the processes.
pub(super) struct Member {
    pub(super) broker: Proxy,
    pub(super) database: Proxy,
    orders: Orders,
    pub(super) produces: bool,
    life: Mutex<Life>,
}

/// The process, and the totals reported by it and its predecessors.
struct Life {
    worker: Option<Worker>,
    tells: Vec<Sign>,
}

impl Member {
    async fn start(site: &Site, name: &str, role: Role) -> Self {
        let broker = Proxy::start(site.address()).await;
        let database = Proxy::start(site.db.address()).await;
        let tells = Sign::new();
        let produces = matches!(role, Role::Producer { .. });
        let (by, via) = (site.db.config_by(database.address), site.broker_by(broker.address));
        let orders = Orders::new(name, role, &by, &via, &tells);
        let worker = Some(orders.start());
        Self { broker, database, orders, produces, life: Mutex::new(Life { worker, tells: vec![tells] }) }
    }

    /// Kills the process and starts another in its place.
    pub(super) fn kill_and_replace(&self) {
        let mut life = self.life.lock().unwrap();
        if let Some(mut worker) = life.worker.take() {
            worker.kill();
        }
        let tells = Sign::new();
        life.worker = Some(self.orders.telling(&tells).start());
        life.tells.push(tells);
    }

    fn stop(&self) {
        self.life.lock().unwrap().worker = None;
    }
}

pub(super) struct Crew {
    pub(super) members: Vec<Member>,
}

impl Crew {
    pub(super) async fn start(site: &Site) -> Self {
        let mut members = Vec::new();
        for n in 1..=MEMBERS {
            let role = Role::Executor { concurrency: 10, lease: 3, sign: None };
            members.push(Member::start(site, &format!("executor {n}"), role).await);
        }
        for n in 1..=MEMBERS {
            let role = Role::Producer { batch: BATCH, pause: PAUSE };
            members.push(Member::start(site, &format!("producer {n}"), role).await);
        }
        Self { members }
    }

    /// Stops all producers at once: whether a commit in flight succeeded, the database knows.
    pub(super) fn stop_producers(&self) {
        self.members.iter().filter(|member| member.produces).for_each(Member::stop);
    }

    /// Returns the totals that all processes reported before they ended. A process that was killed takes its last moments with it.
    pub(super) fn totals(&self) -> Told {
        let mut all = Told::default();
        for member in &self.members {
            for sign in &member.life.lock().unwrap().tells {
                let told = told(sign);
                all.committed += told.committed;
                all.failed += told.failed;
                all.in_doubt += told.in_doubt;
                all.done += told.done;
                all.claimed += told.claimed;
                all.delivered += told.delivered;
                all.stale += told.stale;
                all.refused += told.refused;
            }
        }
        all
    }
}
