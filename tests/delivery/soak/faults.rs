//! The faults and their timing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::crew::Crew;
use crate::delivery::amqp_client::Client;
use crate::delivery::site::Site;
use crate::support::private_rabbit::PrivateRabbit;
use crate::support::seeded_random::Chance;

/// Faults of one process.
#[derive(Clone, Copy, Debug)]
enum MemberFault {
    Killed,
    BrokerCut,
    BrokerAway,
    BrokerMute,
    BrokerSlow,
    DatabaseCut,
    DatabaseAway,
    DatabaseMute,
}

const MEMBER_FAULTS: [MemberFault; 9] = [
    MemberFault::Killed,
    MemberFault::Killed,
    MemberFault::BrokerCut,
    MemberFault::BrokerAway,
    MemberFault::BrokerMute,
    MemberFault::BrokerSlow,
    MemberFault::DatabaseCut,
    MemberFault::DatabaseAway,
    MemberFault::DatabaseMute,
];

/// Faults of the broker, which affect all processes.
#[derive(Clone, Copy, Debug)]
enum BrokerFault {
    Purged,
    QueueDeleted,
    Alarm,
    Stopped,
    Killed,
    Wiped,
}

const BROKER_FAULTS: [BrokerFault; 9] = [
    BrokerFault::Purged,
    BrokerFault::Purged,
    BrokerFault::QueueDeleted,
    BrokerFault::QueueDeleted,
    BrokerFault::Alarm,
    BrokerFault::Alarm,
    BrokerFault::Stopped,
    BrokerFault::Killed,
    BrokerFault::Wiped,
];

pub(super) struct Chaos {
    crew: Arc<Crew>,
    rabbit: Mutex<PrivateRabbit>,
    url: String,
    queue: String,
    counts: Mutex<BTreeMap<String, u64>>,
}

impl Chaos {
    pub(super) fn new(site: &Site, crew: Arc<Crew>, rabbit: PrivateRabbit) -> Arc<Self> {
        let queue = site.names().deliveries("default");
        Arc::new(Self { crew, rabbit: Mutex::new(rabbit), url: site.url.clone(), queue, counts: Mutex::default() })
    }

    pub(super) fn counts(&self) -> BTreeMap<String, u64> {
        self.counts.lock().unwrap().clone()
    }

    fn count(&self, what: String) {
        *self.counts.lock().unwrap().entry(what).or_default() += 1;
    }

    /// Causes faults until `end`; then repairs everything.
    pub(super) async fn trouble_members(self: Arc<Self>, mut chance: Chance, end: Instant) {
        while Instant::now() < end {
            tokio::time::sleep(chance.millis(300, 2000)).await;
            let fault = chance.pick(&MEMBER_FAULTS);
            let member = &self.crew.members[chance.below(self.crew.members.len())];
            let (long, short) = (chance.millis(500, 6000), chance.millis(300, 1500));
            self.count(format!("{} {fault:?}", if member.produces { "producer" } else { "executor" }));
            match fault {
                MemberFault::Killed => tokio::task::block_in_place(|| member.kill_and_replace()),
                MemberFault::BrokerCut => member.broker.cut(),
                MemberFault::BrokerAway => member.broker.down(),
                MemberFault::BrokerMute => member.broker.stall(),
                MemberFault::BrokerSlow => member.broker.slow(Duration::from_millis(100)),
                MemberFault::DatabaseCut => member.database.cut(),
                MemberFault::DatabaseAway => member.database.down(),
                MemberFault::DatabaseMute => member.database.stall(),
            }
            match fault {
                MemberFault::Killed | MemberFault::BrokerCut | MemberFault::DatabaseCut => {}
                MemberFault::DatabaseAway | MemberFault::DatabaseMute => tokio::time::sleep(short).await,
                MemberFault::BrokerAway | MemberFault::BrokerMute | MemberFault::BrokerSlow => {
                    tokio::time::sleep(long).await;
                }
            }
            member.broker.heal();
            member.database.heal();
        }
    }

    /// Does the same to the broker.
    pub(super) async fn trouble_broker(self: Arc<Self>, mut chance: Chance, end: Instant) {
        while Instant::now() < end {
            // With time for deliveries to resume in between.
            tokio::time::sleep(chance.millis(1000, 10_000)).await;
            let fault = chance.pick(&BROKER_FAULTS);
            let pause = chance.millis(500, 4000);
            self.count(format!("broker {fault:?}"));
            match fault {
                BrokerFault::Purged => Client::connect(&self.url).await.try_purge(&self.queue).await,
                BrokerFault::QueueDeleted => Client::connect(&self.url).await.delete(&self.queue).await,
                BrokerFault::Alarm => {
                    self.broker(PrivateRabbit::alarm);
                    tokio::time::sleep(pause).await;
                    self.broker(PrivateRabbit::calm);
                }
                BrokerFault::Stopped => {
                    self.broker(PrivateRabbit::stop_app);
                    tokio::time::sleep(pause).await;
                    self.broker(PrivateRabbit::start_app);
                }
                BrokerFault::Wiped => self.broker(PrivateRabbit::wipe),
                BrokerFault::Killed => {
                    tokio::task::block_in_place(|| self.rabbit.lock().unwrap().kill());
                    tokio::time::sleep(pause).await;
                    tokio::task::block_in_place(|| self.rabbit.lock().unwrap().run());
                }
            }
        }
    }

    fn broker(&self, call: impl FnOnce(&PrivateRabbit)) {
        tokio::task::block_in_place(|| call(&self.rabbit.lock().unwrap()));
    }
}
