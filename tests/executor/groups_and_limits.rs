//! Groups and limits with whole executors: several nodes, some of which die.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobwright::admin::{Rule, Scope};
use jobwright::{CommandExecutor, ExecutorConfig, JobId, NewJob, Outcome};

use crate::support::environment::{PATIENCE, World, lease, patient, quick};
use crate::support::eventually;

/// Running handlers by group and by tenant, the highest numbers so far, and the order in which jobs ended.
#[derive(Clone, Debug, Default)]
struct Watch(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    now: BTreeMap<String, usize>,
    most: BTreeMap<String, usize>,
}

/// Marks a handler as running until this is dropped, also with its handler when the node is dropped.
struct Here(Watch, Vec<String>);

impl Watch {
    fn enter(&self, names: Vec<String>) -> Here {
        let mut seen = self.0.lock().unwrap();
        for name in &names {
            let now = seen.now.entry(name.clone()).or_default();
            *now += 1;
            let now = *now;
            let most = seen.most.entry(name.clone()).or_default();
            *most = now.max(*most);
        }
        drop(seen);
        Here(self.clone(), names)
    }

    fn most(&self, name: &str) -> usize {
        self.0.lock().unwrap().most.get(name).copied().unwrap_or(0)
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        let mut seen = self.0.0.lock().unwrap();
        for name in &self.1 {
            *seen.now.get_mut(name).unwrap() -= 1;
        }
    }
}

/// Starts an executor with connections like a separate process. Its handler takes a short while and writes its job's id into the ledger.
async fn start<W: World>(db: &W, config: ExecutorConfig, watch: &Watch) -> CommandExecutor<W::Store> {
    let watch = watch.clone();
    CommandExecutor::builder(db.messages().await)
        .config(config)
        .queue("default", 8)
        .queue("other", 8)
        .handle_with("work", move |cx| {
            let watch = watch.clone();
            Box::pin(async move {
                let job = cx.job().clone();
                let names = [("g", &job.options.group), ("t", &job.options.tenant)];
                let names = names.iter().filter_map(|(kind, name)| Some(format!("{kind}:{}", name.as_ref()?)));
                let here = watch.enter(names.chain(["all".to_owned()]).collect());
                tokio::time::sleep(Duration::from_millis(2)).await;
                W::note(cx.transaction().await?, &job.id.to_string()).await?;
                drop(here);
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap()
}

async fn sound<W: World>(db: &W) {
    // A permit that an outcome freed may still wait for its admission pass.
    let jobs = db.jobs();
    eventually(PATIENCE, async || jobs.permit_faults().await.unwrap().is_empty()).await;
}

/// A group of 60 jobs without polling: each is admitted, claimed and run because the one before it ended.
pub(crate) async fn a_group_runs_back_to_back<W: World>(db: &W) {
    let watch = Watch::default();
    let executor = start(db, patient(), &watch).await;
    let messages = db.messages().await;
    let mut cx = messages.begin();
    let ids: Vec<JobId> = (0..60).map(|n| cx.send(NewJob::json("work", &n).exclusive("g")).unwrap()).collect();
    cx.commit().await.unwrap();
    // Other processes are reached by hints; a store without hints can't do this.
    if W::HEARS_HINTS {
        db.drained().await;
        assert_eq!(watch.most("g:g"), 1);
        db.each_once(&ids).await;
    }
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
    sound(db).await;
}

pub(crate) async fn groups_never_overlap_over_nodes_and_queues<W: World>(db: &W) {
    let watch = Watch::default();
    let executors = [start(db, quick(), &watch).await, start(db, quick(), &watch).await];
    let messages = db.messages().await;
    let mut ids = Vec::new();
    for n in 0..90 {
        let queue = if n % 2 == 0 { "default" } else { "other" };
        let job = NewJob::json("work", &n).exclusive(format!("g{}", n % 7)).queue(queue);
        ids.push(messages.send(job).await.unwrap());
    }
    db.drained().await;
    for n in 0..7 {
        assert_eq!(watch.most(&format!("g:g{n}")), 1, "group {n}");
    }
    db.each_once(&ids).await;
    for executor in executors {
        executor.shutdown(Duration::from_secs(5)).await.unwrap();
    }
    sound(db).await;
}

/// Claimed, preclaimed, admitted: both nodes together run no more than the rules allow.
pub(crate) async fn limits_hold_over_nodes<W: World>(db: &W) {
    let store = db.jobs();
    store.put_rule(&Rule::new(Scope::Tenant, "*").running(2)).await.unwrap();
    store.put_rule(&Rule::new(Scope::Kind, "work").running(5)).await.unwrap();
    let watch = Watch::default();
    let executors = [start(db, quick(), &watch).await, start(db, quick(), &watch).await];
    let messages = db.messages().await;
    let mut ids = Vec::new();
    for n in 0..120 {
        ids.push(messages.send(NewJob::json("work", &n).tenant(format!("t{}", n % 4))).await.unwrap());
    }
    db.drained().await;
    for n in 0..4 {
        assert!(watch.most(&format!("t:t{n}")) <= 2, "tenant {n}");
    }
    assert!(watch.most("all") <= 5);
    db.each_once(&ids).await;
    for executor in executors {
        executor.shutdown(Duration::from_secs(5)).await.unwrap();
    }
    sound(db).await;
}

/// Nodes are dropped while they work and others join, and groups and limits still hold: nothing is lost, nothing overlaps, no permit stays held.
pub(crate) async fn nodes_die_and_permits_are_conserved<W: World>(db: &W) {
    let store = db.jobs();
    store.put_rule(&Rule::new(Scope::Tenant, "*").running(3)).await.unwrap();
    let watch = Watch::default();
    let messages = db.messages().await;
    let mut ids = Vec::new();
    for n in 0..150 {
        let job = NewJob::json("work", &n).tenant(format!("t{}", n % 3)).max_attempts(1000);
        let job = if n % 3 == 0 { job.ordered(format!("g{}", n % 5)) } else { job.exclusive(format!("g{}", n % 11)) };
        ids.push(messages.send(job).await.unwrap());
    }
    let mut kept = start(db, lease(1), &watch).await;
    for round in 0..6_usize {
        let next = start(db, quick(), &watch).await;
        let done = ids.len() * (round + 1) / 8;
        eventually(PATIENCE, async || db.ledger().await.len() >= done).await;
        // Dropped with all its jobs in flight.
        drop(std::mem::replace(&mut kept, next));
    }
    db.drained().await;
    for n in 0..11 {
        assert_eq!(watch.most(&format!("g:g{n}")), 1, "group {n}");
    }
    for n in 0..3 {
        assert!(watch.most(&format!("t:t{n}")) <= 3, "tenant {n}");
    }
    db.each_once(&ids).await;
    kept.shutdown(Duration::from_secs(5)).await.unwrap();
    sound(db).await;
}

/// A pause stops waiting and new jobs, and its end lets them start at once.
pub(crate) async fn a_pause_ends_at_once<W: World>(db: &W) {
    let store = db.jobs();
    let watch = Watch::default();
    let messages = db.messages().await;
    // Several at a time, so that both waiting and blocked jobs are involved.
    let executor = start(db, quick(), &watch).await;
    for scope in [Scope::Queue, Scope::Kind] {
        let name = if scope == Scope::Queue { "default" } else { "work" };
        store.put_rule(&Rule::new(scope, name).paused(true)).await.unwrap();
        let mut ids = Vec::new();
        for n in 0..5 {
            ids.push(messages.send(NewJob::json("work", &n).queue("default")).await.unwrap());
        }
        let free = messages.send(NewJob::json("work", &9).queue("other")).await.unwrap();
        if scope == Scope::Queue {
            // Sent later than the others, and done: the others are not just slow.
            db.gone(free).await;
            ids.push(free);
        }
        for id in &ids[..5] {
            assert!(store.state(*id).await.is_some());
        }
        store.put_rule(&Rule::new(scope, name)).await.unwrap();
        db.drained().await;
    }
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
    sound(db).await;
}
