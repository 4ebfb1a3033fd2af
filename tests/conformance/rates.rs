//! How starts under rates are counted and forgotten.

use std::time::{Duration, Instant};

use jobwright::admin::{Rule, Scope};

use crate::conformance::groups::sound;
use crate::support::jobs::{job, jobs};
use crate::support::{Jobs, SqlDb};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
/// Starts within about nine hours are counted together.
const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);

async fn start_one(store: &Jobs) {
    store.send(job()).await;
    assert_eq!(store.admit_all().await, 1);
}

/// Whatever number of admission passes there are, few rows have to be summed.
pub(crate) async fn starts_close_to_each_other_are_counted_as_one<T: SqlDb>(db: &T) {
    let store = db.jobs();
    store.put_rule(&Rule::new(Scope::Queue, "default").rate(100, YEAR)).await.unwrap();
    store.put_rule(&Rule::new(Scope::Tenant, "acme").rate(100, YEAR)).await.unwrap();
    for _ in 0..5 {
        start_one(&store).await;
    }
    store.send_all([job().tenant("acme"), job().tenant("acme")]).await;
    assert_eq!(store.admit_all().await, 2);
    let mut starts = db.starts().await;
    starts.sort();
    assert_eq!(starts, [("q:default".to_owned(), 7), ("t:acme".to_owned(), 2)]);
    sound(&store).await;
}

/// Starts counted together count until the last of them is out of the period.
pub(crate) async fn starts_counted_together_keep_the_rate<T: SqlDb>(db: &T) {
    let store = db.jobs();
    store.put_rule(&Rule::new(Scope::Queue, "default").rate(2, YEAR)).await.unwrap();
    start_one(&store).await;
    db.pass(2 * SECOND).await;
    start_one(&store).await;
    assert_eq!(db.starts().await.len(), 1);
    store.send_all(jobs(3)).await;
    db.pass(YEAR.checked_sub(SECOND).unwrap()).await;
    assert_eq!(store.admit_all().await, 0, "the first is over; the second is not");
    db.pass(2 * SECOND).await;
    assert_eq!(store.admit_all().await, 2);
}

/// Starts follow each other closely forever: each still leaves the period in time.
pub(crate) async fn starts_counted_together_are_bounded<T: SqlDb>(db: &T) {
    let store = db.jobs();
    // Starts within a tenth of a second are counted as one.
    store.put_rule(&Rule::new(Scope::Queue, "default").rate(1_000_000, 100 * SECOND)).await.unwrap();
    let (began, mut started) = (Instant::now(), 0);
    while began.elapsed() < SECOND {
        start_one(&store).await;
        started += 1;
    }
    let starts = db.starts().await;
    assert!(starts.len() * 2 >= started.min(10), "{started} in a second: {starts:?}");
    assert_eq!(starts.iter().map(|(_, n)| usize::try_from(*n).unwrap()).sum::<usize>(), started);
}

/// Starts are forgotten by the rate of their own key, whatever rates others have, and not by an admission pass.
pub(crate) async fn starts_older_than_their_rates_period_are_removed<T: SqlDb>(db: &T) {
    let store = db.jobs();
    for rule in [
        Rule::new(Scope::Queue, "default").rate(9, 60 * SECOND),
        Rule::new(Scope::Kind, "kind").rate(9, YEAR),
        Rule::new(Scope::Tenant, "*").rate(9, YEAR),
        Rule::new(Scope::Tenant, "quick").rate(9, SECOND),
        Rule::new(Scope::Key, "slow").rate(9, YEAR),
        Rule::new(Scope::Key, "*").rate(9, SECOND),
    ] {
        store.put_rule(&rule).await.unwrap();
    }
    store.send_all([job().tenant("any").limit_key("slow"), job().tenant("quick").limit_key("any")]).await;
    assert_eq!(store.admit_all().await, 2);
    assert_eq!(store.prune_rates(100).await.unwrap(), 0, "all are young");
    db.pass(HOUR).await;
    start_one(&store).await;
    let of = |starts: Vec<(String, i64)>| {
        let mut keys: Vec<_> = starts.into_iter().map(|(key, _)| key).collect();
        keys.sort();
        keys
    };
    let all = of(db.starts().await);
    for key in ["q:default", "k:kind", "t:any", "t:quick", "l:slow", "l:any"] {
        assert!(all.iter().any(|known| known == key), "{key}: {all:?}");
    }
    assert_eq!(store.prune_rates(1).await.unwrap(), 1, "no more at once than was said");
    assert_eq!(store.prune_rates(100).await.unwrap(), 2);
    let left = of(db.starts().await);
    let kept: Vec<_> = left.iter().filter(|key| *key != "k:kind").collect();
    assert_eq!(kept, ["l:slow", "q:default", "t:any"], "the young one of the queue is kept");
    assert!(left.iter().any(|key| key == "k:kind"), "{left:?}");

    // A rule without a rate forgets its starts, although the rule of all has one; so does a removed rule.
    store.put_rule(&Rule::new(Scope::Tenant, "any").running(5)).await.unwrap();
    store.put_rule(&Rule::new(Scope::Key, "slow")).await.unwrap();
    store.put_rule(&Rule::new(Scope::Key, "*")).await.unwrap();
    assert_eq!(store.prune_rates(100).await.unwrap(), 2);
    let left = of(db.starts().await);
    assert!(!left.iter().any(|key| key.starts_with("t:") || key.starts_with("l:")), "{left:?}");
}
