//! Groups, pauses and limits, while deliveries come: a delivery never starts a job that has to wait.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobwright::admin::{Rule, Scope};
use jobwright::{CommandExecutor, NewJob, Outcome};

use crate::delivery::site::{Site, brisk, note, send};
use crate::support::environment::{PATIENCE, World};
use crate::support::postgres::Pg;
use crate::support::{TestDb, eventually};

/// How long a row stays hidden for its delivery.
const HOLD: Duration = Duration::from_secs(5);

/// Running handlers by group and in total, and the highest numbers so far.
#[derive(Clone, Debug, Default)]
struct Crowd(Arc<Mutex<BTreeMap<String, (usize, usize)>>>);

impl Crowd {
    fn enter(&self, name: &str) {
        let mut crowd = self.0.lock().unwrap();
        let (now, most) = crowd.entry(name.to_owned()).or_default();
        *now += 1;
        *most = (*most).max(*now);
    }

    fn leave(&self, name: &str) {
        self.0.lock().unwrap().get_mut(name).unwrap().0 -= 1;
    }

    fn most(&self, name: &str) -> usize {
        self.0.lock().unwrap().get(name).map_or(0, |(_, most)| *most)
    }
}

/// Starts an executor elsewhere, with ten slots. Its jobs of kind `work` take a short while; those of kind `note` show when the broker is in use.
async fn working(site: &Site, crowd: &Crowd) -> CommandExecutor {
    let crowd = crowd.clone();
    site.uses("other");
    CommandExecutor::builder(site.messages().await)
        .config(brisk())
        .queue("default", 10)
        .queue("other", 2)
        .handle_with("note", |cx| {
            Box::pin(async move {
                let line = cx.job().id.to_string();
                Pg::<false>::note(cx.transaction().await?, &line).await?;
                Ok(Outcome::Done)
            })
        })
        .handle_with("work", move |cx| {
            let crowd = crowd.clone();
            Box::pin(async move {
                let job = cx.job();
                let group = job.options.group.clone().unwrap_or_default();
                crowd.enter(&group);
                let line = job.id.to_string();
                tokio::time::sleep(Duration::from_millis(2)).await;
                Pg::<false>::note(cx.transaction().await?, &line).await?;
                crowd.leave(&group);
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap()
}

/// A job that waits for its group can't be delivered: all such jobs are claimed from the table, one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_a_group_are_not_published_and_never_overlap() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, crowd) = (site.messages().await, Crowd::default());
    let executors = [working(&site, &crowd).await, working(&site, &crowd).await];
    let mut ids = site.warm(&producer, note).await;
    let published = producer.broker().unwrap().stats().confirmed;
    for n in 0..12 {
        let mut cx = producer.begin();
        ids.extend((0..5).map(|_| cx.send(NewJob::json("work", &n).exclusive(format!("g{}", n % 3))).unwrap()));
        let went = cx.commit_confirmed().await.unwrap();
        assert_eq!((went.executor, went.broker, went.table), (0, 0, 5));
    }
    site.settled(&ids).await;
    assert_eq!(producer.broker().unwrap().stats().confirmed, published);
    for group in ["g0", "g1", "g2"] {
        assert_eq!(crowd.most(group), 1, "{group}");
    }
    for executor in executors {
        executor.shutdown(Duration::ZERO).await.unwrap();
    }
}

/// A delivery to a paused queue is acked, and its job stays in the table, at no attempt, until the pause ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_of_a_paused_queue_are_not_run_until_it_goes_on() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, jobs) = (site.messages().await, site.db.jobs());
    let executor = working(&site, &Crowd::default()).await;
    let mut ids = site.warm(&producer, note).await;
    site.settled(&ids).await;

    jobs.put_rule(&Rule::new(Scope::Queue, "default").paused(true)).await.unwrap();
    let passed = |stats: jobwright::ExecutorStats| stats.stale + stats.left_to_table;
    let before = passed(executor.stats());
    let mut cx = producer.begin();
    let paused: Vec<_> = (0..20).map(|_| cx.send(note()).unwrap()).collect();
    let went = cx.commit_confirmed().await.unwrap();
    assert!(went.broker > 0, "{went:?}");
    eventually(PATIENCE, async || passed(executor.stats()) == before + went.broker as u64).await;
    // The head start of a delivery ends, and the pause holds for the table too: a job due later runs, and these do not.
    let later = producer.send(note().queue("other").delay(HOLD + Duration::from_secs(1))).await.unwrap();
    site.db.gone(later).await;
    ids.push(later);
    for id in &paused {
        let detail = jobs.detail(*id).await;
        assert_eq!((detail.version, detail.summary.attempt), (0, 0));
    }

    jobs.put_rule(&Rule::new(Scope::Queue, "default")).await.unwrap();
    ids.extend(paused);
    ids.extend(send(&producer, 20, note).await);
    site.settled(&ids).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// However many deliveries reach however many nodes with free slots.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_kind_stays_within_its_limit() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let (producer, crowd) = (site.messages().await, Crowd::default());
    let executors = [working(&site, &crowd).await, working(&site, &crowd).await];
    let mut ids = site.warm(&producer, note).await;
    site.db.jobs().put_rule(&Rule::new(Scope::Kind, "work").running(2)).await.unwrap();
    let mut delivered = 0;
    for n in 0..10 {
        let mut cx = producer.begin();
        ids.extend((0..10).map(|_| cx.send(NewJob::json("work", &n)).unwrap()));
        delivered += cx.commit_confirmed().await.unwrap().broker;
    }
    assert!(delivered > 0, "nothing went through the broker");
    site.settled(&ids).await;
    assert!((1..=2).contains(&crowd.most("")), "{}", crowd.most(""));
    let jobs = site.db.jobs();
    eventually(PATIENCE, async || jobs.permit_faults().await.unwrap().is_empty()).await;
    for executor in executors {
        executor.shutdown(Duration::ZERO).await.unwrap();
    }
}
