//! What a server is asked for while there is nothing to do.

use std::time::Duration;

use jobwright::store::UpkeepDue;

use crate::schedules::daily;
use crate::support::TestDb;
use crate::support::jobs::job;
use crate::upkeep::{SOON, due, hand_out};

const HOUR: Duration = Duration::from_secs(3600);

/// Then an idle node asks for nothing else.
pub(crate) async fn what_is_far_away_is_not_said<T: TestDb>(db: &T) {
    let store = db.jobs();
    let nothing =
        UpkeepDue { timers: false, expiry: false, gates: false, schedules: false, external: false, now: None };
    assert_eq!(due(&store).await, nothing);
    store.send(job()).await;
    store.send(job().delay(HOUR)).await;
    store.send(job().ttl(HOUR)).await;
    store.send(job().delay(HOUR).ttl(2 * HOUR)).await;
    daily(&store, "daily", |new| new).await;
    hand_out(&store, HOUR).await;
    assert_eq!(due(&store).await, nothing);

    store.send(job().delay(SOON)).await;
    assert_eq!(due(&store).await, UpkeepDue { timers: true, ..nothing });
    store.send(job().ttl(SOON)).await;
    assert_eq!(due(&store).await, UpkeepDue { timers: true, expiry: true, ..nothing });
    // Of a group: it waits behind a gate.
    store.send(job().exclusive("g")).await;
    assert_eq!(due(&store).await, UpkeepDue { timers: true, expiry: true, gates: true, ..nothing });
}
