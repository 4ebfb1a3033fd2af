//! What is asked of a server while there is nothing to do.

use std::time::Duration;

use jobwright::store::engine::MaintenanceDue;

use crate::conformance::maintenance::{SOON, due, hand_out};
use crate::conformance::schedules::daily;
use crate::support::TestDb;
use crate::support::jobs::job;

const HOUR: Duration = Duration::from_secs(3600);

/// When nothing is due soon, an idle node makes no other requests.
pub(crate) async fn distant_maintenance_is_not_reported_as_due<T: TestDb>(db: &T) {
    let store = db.jobs();
    let nothing = MaintenanceDue {
        timers: false,
        expiry: false,
        admission: false,
        schedules: false,
        external: false,
        suspects: false,
        now: None,
    };
    assert_eq!(due(&store).await, nothing);
    store.send(job()).await;
    store.send(job().delay(HOUR)).await;
    store.send(job().ttl(HOUR)).await;
    store.send(job().delay(HOUR).ttl(2 * HOUR)).await;
    daily(&store, "daily", |new| new).await;
    hand_out(&store, HOUR).await;
    assert_eq!(due(&store).await, nothing);

    store.send(job().delay(SOON)).await;
    assert_eq!(due(&store).await, MaintenanceDue { timers: true, ..nothing });
    store.send(job().ttl(SOON)).await;
    assert_eq!(due(&store).await, MaintenanceDue { timers: true, expiry: true, ..nothing });
    // The second job of a group is blocked on the key.
    store.send(job().exclusive("g")).await;
    assert_eq!(due(&store).await, MaintenanceDue { timers: true, expiry: true, admission: true, ..nothing });
}
