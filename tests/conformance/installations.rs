//! The installation that a database belongs to.

use jobwright::admin::AuditFilter;
use jobwright::internal::engine::Adoption;

use crate::support::SqlDb;

/// Every handle reads the same id. One that moves keeps it, and a copy gets one of its own.
pub(crate) async fn an_id_stays_until_a_copy_is_adopted<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let first = store.installation().await.unwrap().unwrap();
    assert!(first.is_at_home() && first.id.as_ref().is_some_and(|id| id.len() == 36), "{first:?}");
    store.migrate().await.unwrap();
    assert_eq!(store.installation().await.unwrap().unwrap(), first);

    let moved = store.adopt(Adoption::Moved, Some("ann")).await.unwrap().unwrap();
    assert_eq!(moved, first);
    let copy = store.adopt(Adoption::Copy, Some("ann")).await.unwrap().unwrap();
    assert!(copy.is_at_home() && copy.id != first.id, "{copy:?}");
    assert_eq!(store.installation().await.unwrap().unwrap(), copy);
    store.report_key().await.unwrap();

    let mut filter = AuditFilter::default();
    filter.action = Some("adopt".to_owned());
    let entries = store.audit(&filter, 10).await.unwrap();
    assert_eq!(entries.len(), 2);
    assert!(entries.iter().all(|entry| entry.who == "ann" && entry.what["before"]["id"].is_string()), "{entries:?}");
}
