//! What `doctor` asks of a store: whether jobs wait that nothing will start.

use std::time::Duration;

use jobwright::admin::{Rule, Scope};
use jobwright::internal::OverdueWork;

use crate::conformance::groups::sound;
use crate::support::environment::PATIENCE;
use crate::support::jobs::{hand_out_number, job, jobs};
use crate::support::{SqlDb, eventually};

const HOUR: Duration = Duration::from_secs(3600);

/// A rule that was deleted by hand leaves jobs blocked on its key, and nothing will unblock it.
pub(crate) async fn jobs_blocked_without_a_rule_are_a_fault<T: SqlDb>(db: &T) {
    let store = db.jobs();
    for (scope, name, blocked_on) in [
        (Scope::Queue, "default", "q:default"),
        (Scope::Kind, "kind", "k:kind"),
        (Scope::Tenant, "acme", "t:acme"),
        (Scope::Tenant, "*", "t:acme"),
        (Scope::Key, "printer", "l:printer"),
        (Scope::Group, "g", "g:g"),
    ] {
        let rule = Rule::new(scope, name);
        store.put_rule(&if scope == Scope::Group { rule.paused(true) } else { rule.running(0) }).await.unwrap();
        store.send(job().tenant("acme").limit_key("printer").exclusive("g")).await;
        store.admit_all().await;
        sound(&store).await;
        db.lose_rules().await;
        let faults = store.permit_faults().await.unwrap();
        assert!(
            faults.iter().any(|fault| fault.starts_with(&format!("jobs wait at {blocked_on}, "))),
            "{scope}: {faults:?}"
        );
        // Putting the rule again, or removing it through the library, unblocks the key.
        store.put_rule(&Rule::new(scope, name)).await.unwrap();
        sound(&store).await;
        assert_eq!(store.admit_all().await, 1, "{scope}");
        let node = store.node().await;
        let claimed = store.take_one(node).await;
        store.finish(node, &claimed).await;
        store.admit_all().await;
    }
}

/// A limit is not reached, and nothing is due to unblock its key.
pub(crate) async fn a_key_that_was_not_unblocked_is_a_fault<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    store.put_rule(&Rule::new(Scope::Tenant, "*").running(1)).await.unwrap();
    store.send_all(jobs(2).into_iter().map(|job| job.tenant("acme"))).await;
    store.admit_all().await;
    let claimed = store.take_one(node).await;
    sound(&store).await;
    store.finish(node, &claimed).await;
    sound(&store).await;
    db.age_unblocks(None).await;
    assert_eq!(
        store.permit_faults().await.unwrap(),
        ["jobs wait at t:acme, which no job holds and no unblock will open"]
    );
}

/// A key blocked by a rate unblocks when its time comes.
pub(crate) async fn a_rate_is_no_fault<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let node = store.node().await;
    store.put_rule(&Rule::new(Scope::Queue, "default").rate(1, Duration::from_secs(3600))).await.unwrap();
    store.send_all(jobs(3)).await;
    store.admit_all().await;
    let claimed = store.take_one(node).await;
    store.finish(node, &claimed).await;
    store.admit_all().await;
    sound(&store).await;
    assert_eq!(store.overdue_unblocks().await.unwrap().unblocks, 0, "it opens in an hour");
}

pub(crate) async fn overdue_work_is_reported<T: SqlDb>(db: &T) {
    let store = db.jobs();
    let late = async || store.overdue_work().await.unwrap();
    assert_eq!(late().await, OverdueWork::default());
    // Neither is due.
    store.send(job().delay(HOUR)).await;
    store.send(job().ttl(HOUR)).await;
    assert_eq!(late().await, OverdueWork::default());
    db.pass(HOUR + Duration::from_secs(100)).await;
    let found = late().await;
    let of = |late: Option<Duration>| late.is_some_and(|late| (100..160).contains(&late.as_secs()));
    assert!(of(found.timers) && of(found.expiry) && found.external.is_none(), "{found:?}");
    store.send(job().queue("out")).await;
    assert_eq!(store.hand_out("out", 1, Duration::from_millis(1), hand_out_number()).await.unwrap().len(), 1);
    eventually(PATIENCE, async || late().await.external.is_some()).await;
    let ended = store.promote_due(10).await.unwrap().jobs + store.expire_jobs(10).await.unwrap().jobs;
    assert_eq!((ended, store.expire_external(10).await.unwrap().waiting), (2, 1));
    assert_eq!(late().await, OverdueWork::default());
}

pub(crate) async fn overdue_unblocks_are_reported<T: SqlDb>(db: &T) {
    let store = db.jobs();
    assert_eq!(store.overdue_unblocks().await.unwrap().unblocks, 0);
    store.send(job().exclusive("g")).await;
    let fresh = store.overdue_unblocks().await.unwrap();
    assert!(fresh.unblocks == 1 && fresh.longest < Duration::from_secs(600), "{fresh:?}");
    db.age_unblocks(Some(Duration::from_secs(7200))).await;
    let old = store.overdue_unblocks().await.unwrap();
    assert!(old.unblocks == 1 && old.longest >= Duration::from_secs(7190), "{old:?}");
    assert_eq!(store.admit_all().await, 1);
    assert_eq!(store.overdue_unblocks().await.unwrap().unblocks, 0);
}

/// One admission pass takes many unblocks of few keys and leaves more. Nothing else reports the rest, so their jobs would wait for the next poll.
pub(crate) async fn many_unblocks_of_few_keys_do_not_end_admission<T: SqlDb>(db: &T) {
    let store = db.jobs();
    for groups in [1, 7, 2_000] {
        db.change(&format!(
            "with recursive note (n) as (select 1 union all select n + 1 from note where n < 25000)
             insert into {{}}unblock (key) select 'g:' || (n % {groups}) from note"
        ))
        .await;
        let sent = store.send(job().exclusive("last")).await;
        assert_eq!(store.admit_all().await, 1, "beside {groups}");
        let node = store.node().await;
        let claimed = store.take_one(node).await;
        assert_eq!(claimed.id, sent);
        store.finish(node, &claimed).await;
        store.admit_all().await;
        assert_eq!(store.overdue_unblocks().await.unwrap().unblocks, 0, "all were looked at");
    }
}
