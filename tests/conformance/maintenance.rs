//! Whether any maintenance is due: one query for all of it.

use std::time::Duration;

use jiff::Timestamp;
use jobwright::NewJob;
use jobwright::admin::{Rule, Scope};
use jobwright::internal::engine::{MaintenanceDue, MaintenanceRequest};

use crate::conformance::schedules::daily;
use crate::support::jobs::{hand_out_number, job};
use crate::support::{Jobs, TestDb, eventually};

pub(crate) const SOON: Duration = Duration::from_secs(5);

/// Returns the maintenance that is due within twice [`SOON`].
pub(crate) async fn due(store: &Jobs) -> MaintenanceDue {
    let due = store.maintenance_due(&MaintenanceRequest::within(2 * SOON)).await.unwrap();
    MaintenanceDue { now: None, rules: due.rules.map(|_| 0), ..due }
}

pub(crate) async fn hand_out(store: &Jobs, lease: Duration) {
    store.send(NewJob::json("kind", &1).queue("out")).await;
    assert_eq!(store.hand_out("out", 1, lease, hand_out_number()).await.unwrap().len(), 1);
}

/// A store may report maintenance that is not due, but must not miss any that is.
pub(crate) async fn due_maintenance_is_reported<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.send(job().delay(SOON)).await;
    assert!(due(&store).await.timers);
    store.send(job().ttl(SOON)).await;
    assert!(due(&store).await.expiry);
    let request = MaintenanceRequest::within(SOON);
    let rules = store.maintenance_due(&request).await.unwrap().rules;
    store.put_rule(&Rule::new(Scope::Queue, "default").running(3)).await.unwrap();
    let after = store.maintenance_due(&request).await.unwrap();
    assert!(after.admission || rules.is_none() || after.rules != rules);
    daily(&store, "daily", |new| new).await;
    db.make_due("daily", Timestamp::now()).await;
    assert!(due(&store).await.schedules);
    hand_out(&store, Duration::from_millis(1)).await;
    eventually(SOON, async || due(&store).await.external).await;
}
