//! Schedules and rules that third-party SQL made unreadable, and jobs that no library would send: each is shown, and none blocks the others.

use jobwright::admin::{Rule, Scope, ShareBy};
use jobwright::internal::engine::schedules::ScheduleQuery;

use crate::conformance::schedules::{daily, days_ago, fire};
use crate::support::SqlDb;
use crate::support::jobs::{job, jobs};
use crate::support::logs::Logs;

pub(crate) async fn a_schedule_that_can_not_be_read_stops_no_other<T: SqlDb>(db: &T) {
    let logs = Logs::capture();
    let store = db.jobs();
    let spoiled = [
        ("options", "options = '{\"tenant\": 5}'"),
        ("zone", "zone = 'Nowhere/At/All'"),
        ("misfire", "misfire = 'perhaps'"),
    ];
    daily(&store, "good", |new| new).await;
    for (name, change) in spoiled {
        daily(&store, name, |new| new).await;
        db.change(&format!("update {{}}schedule set {change} where name = '{name}'")).await;
        db.make_due(name, days_ago(2)).await;
    }
    for _ in 0..3 {
        db.make_due("good", days_ago(0)).await;
        let fired = fire(&store).await;
        assert_eq!((fired.schedules, fired.jobs), (1, 1));
    }
    let (_, page) = store.read_schedules(ScheduleQuery::Page { after: None, limit: 100 }).await.unwrap();
    assert_eq!(page.iter().map(|one| one.spec.name.as_str()).collect::<Vec<_>>(), ["good"]);
    let mut faults = store.schedule_faults().await.unwrap();
    faults.sort_by(|one, other| one.name.cmp(&other.name));
    assert_eq!(faults.iter().map(|fault| fault.name.as_str()).collect::<Vec<_>>(), ["misfire", "options", "zone"]);
    assert!(faults.iter().all(|fault| !fault.why.is_empty()), "{faults:?}");
    let told = |name: &str| logs.about(&format!("schedule=\"{name}\""), "ERROR").len();
    assert_eq!(spoiled.map(|(name, _)| told(name)), [1; 3], "once, however often it is met");

    db.change("update {}schedule set version = version + 1 where name = 'zone'").await;
    fire(&store).await;
    assert_eq!(told("zone"), 2, "once for each change");
    store.delete_schedules(&spoiled.map(|(name, _)| name.to_owned()), None).await.unwrap();
    assert_eq!(store.schedule_faults().await.unwrap(), []);
}

/// The limit holds, and so do other rules.
pub(crate) async fn shares_that_can_not_be_read_divide_nothing<T: SqlDb>(db: &T) {
    let logs = Logs::capture();
    let store = db.jobs();
    let rule = || Rule::new(Scope::Queue, "default").running(2).shares(ShareBy::Tenant, [("big".to_owned(), 3)]);
    store.put_rule(&rule()).await.unwrap();
    store.put_rule(&Rule::new(Scope::Tenant, "acme").paused(true)).await.unwrap();
    db.change("update {}rule set shares = '[5]' where scope = 'queue'").await;
    store.send(job().tenant("acme")).await;
    store.send_all(jobs(5)).await;
    assert_eq!(store.admit_all().await, 2);
    assert_eq!(store.admit_all().await, 0);
    let faults = store.rule_faults().await.unwrap();
    assert_eq!(faults.iter().map(|fault| fault.name.as_str()).collect::<Vec<_>>(), ["queue default"]);
    assert_eq!(logs.about("rule=\"queue default\"", "ERROR").len(), 1, "once, however often it is met");
    let rules = store.rules().await.unwrap();
    assert_eq!(
        rules.iter().map(|rule| (rule.running, rule.paused)).collect::<Vec<_>>(),
        [(Some(2), false), (None, true)]
    );

    store.put_rule(&rule()).await.unwrap();
    assert_eq!(store.rule_faults().await.unwrap(), []);
    assert_eq!(store.rules().await.unwrap()[0], rule());
}
