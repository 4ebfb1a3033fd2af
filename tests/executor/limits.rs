//! Concurrency limits and the order of jobs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobwright::admin::{JobFilter, JobState};
use jobwright::{CommandExecutor, Job, KindOptions, NewJob, Outcome};
use tokio::sync::Semaphore;

use crate::support::environment::{Gate, PATIENCE, World, at_once, patient, quick};
use crate::support::eventually;

/// Counts running handlers by name, and remembers the highest count.
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

    async fn visit(&self, name: &str) {
        self.enter(name);
        tokio::time::sleep(Duration::from_millis(3)).await;
        self.leave(name);
    }
}

pub(crate) async fn a_queue_never_runs_more_than_its_concurrency<W: World>(db: &W) {
    let messages = db.messages().await;
    let crowd = Crowd::default();
    let visited = crowd.clone();
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .queue("narrow", 3)
        .queue("wide", 20)
        .handle("visit", move |job: Job| {
            let visited = visited.clone();
            async move {
                visited.visit(&job.queue).await;
                Ok(Outcome::Done)
            }
        })
        .start()
        .await
        .unwrap();
    for _ in 0..15 {
        // Some are sent before it wakes up, some are handed over, some are claimed.
        let mut cx = messages.begin();
        for _ in 0..10 {
            cx.send(NewJob::json("visit", &()).queue("narrow")).unwrap();
            cx.send(NewJob::json("visit", &()).queue("wide")).unwrap();
        }
        cx.commit().await.unwrap();
    }
    db.drained().await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!(crowd.most("narrow"), 3, "the limit was not kept, or not used");
    assert!((4..=20).contains(&crowd.most("wide")), "{}", crowd.most("wide"));
}

pub(crate) async fn a_kind_never_runs_or_holds_more_than_its_concurrency<W: World>(db: &W) {
    let messages = db.messages().await;
    let (crowd, gate) = (Crowd::default(), Gate::closed());
    let (visited, door) = (crowd.clone(), gate.clone());
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .queue("default", 20)
        .kind_options("limited", at_once().concurrency(2))
        .handle("limited", move |_| {
            let (visited, door) = (visited.clone(), door.clone());
            async move {
                visited.enter("limited");
                door.pass().await;
                tokio::time::sleep(Duration::from_millis(2)).await;
                visited.leave("limited");
                Ok(Outcome::Done)
            }
        })
        .start()
        .await
        .unwrap();
    let mut cx = messages.begin();
    for _ in 0..40 {
        cx.send(NewJob::json("limited", &())).unwrap();
    }
    cx.commit().await.unwrap();
    db.counts(JobState::Running, 2).await;
    // Jobs that it could not start are left to other nodes.
    for _ in 0..20 {
        messages.send(NewJob::json("limited", &())).await.unwrap();
        assert_eq!(db.jobs().find(&JobFilter::state(JobState::Running)).await.len(), 2);
    }
    gate.open();
    db.drained().await;
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().done, 60);
    assert_eq!(crowd.most("limited"), 2);
}

pub(crate) async fn a_full_kind_does_not_hold_up_others<W: World>(db: &W) {
    let messages = db.messages().await;
    let gate = Gate::closed();
    let door = gate.clone();
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .queue("default", 4)
        .kind_options("limited", at_once().concurrency(1))
        .handle("limited", move |_| {
            let door = door.clone();
            async move {
                door.pass().await;
                Ok(Outcome::Done)
            }
        })
        .handle("free", |_| async { Ok(Outcome::Done) })
        .start()
        .await
        .unwrap();
    let mut cx = messages.begin();
    for _ in 0..50 {
        cx.send(NewJob::json("limited", &()).priority(10)).unwrap();
    }
    let free: Vec<_> = (0..50).map(|_| cx.send(NewJob::json("free", &())).unwrap()).collect();
    cx.commit().await.unwrap();
    for id in free {
        db.gone(id).await;
    }
    assert_eq!(db.jobs().all().await.len(), 50);
    gate.open();
    db.drained().await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

pub(crate) async fn by_priority_then_order<W: World>(db: &W) {
    let messages = db.messages().await;
    let mut cx = messages.begin();
    for (n, priority) in [0, 5, -3, 5, 32767, 0, -32767].into_iter().enumerate() {
        cx.send(NewJob::json("ordered", &n).priority(priority)).unwrap();
    }
    cx.commit().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = order.clone();
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .queue("default", 1)
        .handle("ordered", move |job: Job| {
            seen.lock().unwrap().push(job.payload.decode::<usize>().unwrap());
            async { Ok(Outcome::Done) }
        })
        .start()
        .await
        .unwrap();
    db.drained().await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!(*order.lock().unwrap(), [4, 1, 3, 0, 5, 2, 6]);
}

/// A scan that continues where the last one ended must not pass better jobs.
pub(crate) async fn an_urgent_job_is_next_in_a_flood<W: World>(db: &W) {
    const SLOTS: usize = 2;
    let (messages, elsewhere) = (db.messages().await, db.messages().await);
    let send = async |kind: &str, priority: i16, count: usize| {
        let mut cx = elsewhere.begin();
        for _ in 0..count {
            cx.send(NewJob::json(kind, &1).priority(priority)).unwrap();
        }
        cx.commit().await.unwrap();
    };
    send("job", 0, 300).await;
    let (order, may_end) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Semaphore::new(0)));
    let (noted, ends) = (order.clone(), may_end.clone());
    let executor = CommandExecutor::builder(messages)
        .config(quick())
        .queue("default", SLOTS)
        .handle("job", move |job: Job| {
            let (noted, ends) = (noted.clone(), ends.clone());
            async move {
                noted.lock().unwrap().push(job.priority);
                ends.acquire().await.unwrap().forget();
                Ok(Outcome::Done)
            }
        })
        .start()
        .await
        .unwrap();
    let begun = || order.lock().unwrap().len();
    // All jobs that may end have begun, and one more in each slot.
    let mut permits = 0;
    for urgent in 1..=10 {
        permits += 20;
        may_end.add_permits(20);
        eventually(PATIENCE, async || begun() == permits + SLOTS).await;
        let before = begun();
        send("job", urgent, 1).await;
        // One for each slot, so that no other job ends before the urgent one, which was claimed first, has begun on a busy machine.
        permits += SLOTS;
        may_end.add_permits(SLOTS);
        eventually(PATIENCE, async || begun() == permits + SLOTS).await;
        let place = order.lock().unwrap().iter().position(|priority| *priority == urgent);
        assert!(place.is_some_and(|place| place < before + SLOTS), "{place:?} after {before}");
        permits += 10 - SLOTS;
        may_end.add_permits(10 - SLOTS);
    }
    may_end.add_permits(300);
    db.drained().await;
    executor.shutdown(PATIENCE).await.unwrap();
}

/// The dispatcher does not wait for slots of a kind, and would poll again in an hour.
pub(crate) async fn a_free_slot_of_a_kind_is_filled_without_a_poll<W: World>(db: &W) {
    let messages = db.messages().await;
    let executor = CommandExecutor::builder(messages.clone())
        .config(patient())
        .queue("default", 4)
        .kind_options("one", KindOptions::default().concurrency(1))
        .handle("one", |_| async { Ok(Outcome::Done) })
        .start()
        .await
        .unwrap();
    let mut cx = messages.begin();
    for n in 0..5 {
        cx.send(NewJob::json("one", &n)).unwrap();
    }
    cx.commit().await.unwrap();
    db.drained().await;
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().done, 5);
}
