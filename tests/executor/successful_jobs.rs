//! Jobs that succeed.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobwright::Store;
use jobwright::admin::JobState;
use jobwright::{Command, CommandExecutor, Job, JobContext, JobError, JobId, MessageServices, NewJob, Outcome};
use serde::{Deserialize, Serialize};

use crate::support::environment::{World, quick};

/// Starts an executor whose jobs of kind `note` write their id into the ledger.
pub(crate) async fn noting<W: World>(
    messages: &MessageServices<W::Store>,
    concurrency: usize,
) -> CommandExecutor<W::Store> {
    CommandExecutor::builder(messages.clone())
        .config(quick())
        .queue("default", concurrency)
        .handle_with("note", |cx| {
            Box::pin(async move {
                let line = cx.job().id.to_string();
                W::note(cx.transaction().await?, &line).await?;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap()
}

pub(crate) fn note() -> NewJob {
    NewJob::json("note", &())
}

/// Sends `count` such jobs in one commit.
pub(crate) async fn send_notes<S: Store>(messages: &MessageServices<S>, count: usize) -> Vec<JobId> {
    let mut cx = messages.begin();
    let ids = (0..count).map(|_| cx.send(note()).unwrap()).collect();
    cx.commit().await.unwrap();
    ids
}

pub(crate) async fn a_job_is_done_and_gone<W: World>(db: &W) {
    let messages = db.messages().await;
    let executor = noting::<W>(&messages, 10).await;
    let ids = send_notes(&messages, 25).await;
    db.drained().await;
    db.each_once(&ids).await;
    let stats = executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!((stats.done, stats.claimed + stats.handed_over), (25, 25));
    assert_eq!((stats.failed, stats.other, stats.released, stats.refused, stats.in_flight), (0, 0, 0, 0, 0));
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Greet {
    name: String,
}

#[derive(Default)]
struct Guests(std::sync::Mutex<Vec<(String, String, u32)>>);

impl<S: Store> Command<S> for Greet {
    const KIND: &'static str = "greet";
    const ALIASES: &'static [&'static str] = &["hello", "salute"];
    type State = Arc<Guests>;

    async fn execute(self, cx: &mut JobContext<'_, Arc<Guests>, S>) -> Result<Outcome, JobError> {
        let job = cx.job();
        cx.state().0.lock().unwrap().push((self.name, job.kind.clone(), job.attempt));
        assert!(!cx.is_cancelled());
        Ok(Outcome::Done)
    }
}

pub(crate) async fn a_command_gets_its_state_and_its_payload<W: World>(db: &W) {
    let messages = db.messages().await;
    let guests = Arc::new(Guests::default());
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .command::<Greet>()
        .state(guests.clone())
        .start()
        .await
        .unwrap();
    messages.send(Greet { name: "Ä \"\u{1f600}\"".to_owned() }).await.unwrap();
    db.drained().await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!(*guests.0.lock().unwrap(), [("Ä \"\u{1f600}\"".to_owned(), "greet".to_owned(), 1)]);
}

pub(crate) async fn jobs_of_an_alias_find_their_command<W: World>(db: &W) {
    let messages = db.messages().await;
    let guests = Arc::new(Guests::default());
    for kind in ["hello", "salute", "greet"] {
        messages.send(NewJob::json(kind, &Greet { name: kind.to_owned() })).await.unwrap();
    }
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .command::<Greet>()
        .state(guests.clone())
        .queue("default", 1)
        .start()
        .await
        .unwrap();
    db.drained().await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    let kinds: Vec<_> = guests.0.lock().unwrap().iter().map(|(_, kind, _)| kind.clone()).collect();
    assert_eq!(kinds, ["hello", "salute", "greet"]);
}

pub(crate) async fn closures_get_the_job<W: World>(db: &W) {
    let messages = db.messages().await;
    let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .handle("closure", move |job: Job| {
            let sender = sender.clone();
            async move {
                sender.send(job).unwrap();
                Ok(Outcome::Done)
            }
        })
        .start()
        .await
        .unwrap();
    let id = messages
        .send(NewJob::json("closure", &[1, 2]).priority(3).header("tenant", "acme").max_attempts(4))
        .await
        .unwrap();
    let job = seen.recv().await.unwrap();
    assert_eq!((job.id, job.kind.as_str(), job.priority, job.attempt, job.max_attempts), (id, "closure", 3, 1, 4));
    assert_eq!(job.headers["tenant"], "acme");
    assert_eq!(job.payload.decode::<[i32; 2]>().unwrap(), [1, 2]);
    db.drained().await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// The handler blocks a thread; the executor and its async handlers go on.
pub(crate) async fn blocking_handlers_run_beside_others<W: World>(db: &W) {
    let messages = db.messages().await;
    let (open, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = std::sync::Mutex::new(blocked);
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .handle_blocking("block", move |_| {
            blocked.lock().unwrap().recv()?;
            Ok(Outcome::Done)
        })
        .handle("light", |_| async { Ok(Outcome::Done) })
        .start()
        .await
        .unwrap();
    let held = messages.send(NewJob::json("block", &())).await.unwrap();
    db.reaches(held, JobState::Running).await;
    let light = messages.send(NewJob::json("light", &())).await.unwrap();
    db.gone(light).await;
    assert_eq!(db.jobs().state(held).await, Some(JobState::Running));
    open.send(()).unwrap();
    db.drained().await;
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().done, 2);
}

pub(crate) async fn an_unknown_kind_waits_untouched_for_a_node_that_knows_it<W: World>(db: &W) {
    let messages = db.messages().await;
    // Best in its queue, so a claim meets it first.
    let unknown = messages.send(NewJob::json("unknown", &()).priority(100)).await.unwrap();
    let executor = noting::<W>(&messages, 1).await;
    let ids = send_notes(&messages, 10).await;
    for id in &ids {
        db.gone(*id).await;
    }
    executor.shutdown(Duration::ZERO).await.unwrap();
    let detail = db.jobs().detail(unknown).await;
    assert_eq!((detail.summary.state, detail.summary.attempt, detail.version), (JobState::Waiting, 0, 0));
    assert!(detail.errors.is_empty());

    let knows = CommandExecutor::builder(messages.clone())
        .config(quick())
        .handle("unknown", |job| async move {
            if job.attempt == 1 { Ok(Outcome::Done) } else { Ok(Outcome::Dead("late".into())) }
        })
        .start()
        .await
        .unwrap();
    db.drained().await;
    knows.shutdown(Duration::ZERO).await.unwrap();
}

pub(crate) async fn other_queues_are_left_alone<W: World>(db: &W) {
    let messages = db.messages().await;
    let other = messages.send(note().queue("other")).await.unwrap();
    let executor = noting::<W>(&messages, 4).await;
    let ids = send_notes(&messages, 5).await;
    let late = messages.send(note().queue("other")).await.unwrap();
    for id in &ids {
        db.gone(*id).await;
    }
    executor.shutdown(Duration::ZERO).await.unwrap();
    for id in [other, late] {
        assert_eq!(db.jobs().detail(id).await.summary.attempt, 0);
    }
    db.each_once(&ids).await;
}

/// Due dates are by the database's clock, which is this machine's here.
pub(crate) async fn not_before_it_is_due<W: World>(db: &W) {
    let messages = db.messages().await;
    let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let executor = CommandExecutor::builder(messages.clone())
        // Only the timer set for this job can start it on time.
        .config(crate::support::environment::patient())
        .handle("timed", move |job: Job| {
            sender.send((job.id, jiff::Timestamp::now())).unwrap();
            async { Ok(Outcome::Done) }
        })
        .start()
        .await
        .unwrap();
    // Later than the other one even if it takes a while to send that.
    let at = jiff::Timestamp::now() + Duration::from_millis(2500);
    let second = messages.send(NewJob::json("timed", &2).at(at)).await.unwrap();
    let first = messages.send(NewJob::json("timed", &1).delay(Duration::from_millis(300))).await.unwrap();
    let due = db.jobs().detail(first).await.summary.due_at.unwrap();
    for (id, due) in [(first, due), (second, at)] {
        let (ran, when) = tokio::time::timeout(Duration::from_secs(10), seen.recv()).await.unwrap().unwrap();
        assert_eq!(ran, id);
        let late = when.duration_since(due);
        // The database keeps microseconds.
        assert!(late.as_micros() >= -1, "early by {late:?}");
        assert!(late.as_millis() < 2000, "late by {late:?}");
    }
    db.drained().await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

pub(crate) async fn timers_are_promoted_once_by_many_nodes<W: World>(db: &W) {
    let (one, two, three) = (db.messages().await, db.messages().await, db.messages().await);
    let executors = [noting::<W>(&one, 8).await, noting::<W>(&two, 8).await, noting::<W>(&three, 8).await];
    let mut cx = one.begin();
    let ids: Vec<_> =
        (0..300).map(|n| cx.send(note().delay(Duration::from_millis(100 + n % 7 * 20))).unwrap()).collect();
    cx.commit().await.unwrap();
    db.drained().await;
    db.each_once(&ids).await;
    for executor in executors {
        assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().refused, 0);
    }
}

pub(crate) async fn many_nodes_run_each_job_once<W: World>(db: &W) {
    let (one, two, three) = (db.messages().await, db.messages().await, db.messages().await);
    let ids = send_notes(&one, 500).await;
    let executors = [noting::<W>(&one, 8).await, noting::<W>(&two, 8).await, noting::<W>(&three, 8).await];
    db.drained().await;
    db.each_once(&ids).await;
    let (mut done, mut lost) = (0, 0);
    for executor in executors {
        let stats = executor.shutdown(Duration::ZERO).await.unwrap();
        // On a machine that did not let it renew its lease of a second, a node gives back its jobs.
        if stats.leases_lost == 0 {
            assert_eq!((stats.refused, stats.failed, stats.released), (0, 0, 0), "{stats:?}");
        }
        done += stats.done;
        lost += stats.leases_lost;
    }
    assert!(done == 500 || lost > 0, "{done}");
}

/// Each node takes a share of the backlog; jobs that return behind all nodes are found too.
pub(crate) async fn many_nodes_drain_a_flood<W: World>(db: &W) {
    let messages = db.messages().await;
    for _ in 0..4 {
        let mut cx = messages.begin();
        for n in 0..750 {
            cx.send(if n % 10 == 0 { NewJob::json("comes-back", &n) } else { NewJob::json("once", &n) }).unwrap();
        }
        cx.commit().await.unwrap();
    }
    let mut executors = Vec::new();
    let came: Arc<Mutex<HashSet<JobId>>> = Arc::default();
    for _ in 0..4 {
        let came = came.clone();
        let executor = CommandExecutor::builder(db.messages().await)
            .config(quick())
            .handle("once", |_| async { Ok(Outcome::Done) })
            .handle("comes-back", move |job| {
                let first = came.lock().unwrap().insert(job.id);
                async move { Ok(if first { Outcome::Snooze(Duration::ZERO) } else { Outcome::Done }) }
            })
            .queue("default", 40)
            .start();
        executors.push(executor);
    }
    let mut running = Vec::new();
    for executor in executors {
        running.push(executor.await.unwrap());
    }
    db.drained().await;
    let mut done = 0;
    for executor in running {
        let stats = executor.shutdown(Duration::ZERO).await.unwrap();
        assert_eq!((stats.refused, stats.failed), (0, 0));
        done += stats.done;
    }
    assert_eq!(done, 3000);
}

/// Another job executor stopped for good after 2,147,483,647 jobs.
pub(crate) async fn numbers_beyond_32_bits<W: World>(db: &W) {
    db.restart_sequence(5_000_000_000).await;
    let messages = db.messages().await;
    let old = messages.send(note()).await.unwrap();
    db.set_counters(old, i64::from(i32::MAX), 0).await;
    let count = Arc::new(AtomicUsize::new(0));
    let snoozes = messages.send(NewJob::json("snoozes", &())).await.unwrap();
    db.set_counters(snoozes, i64::from(i32::MAX), 0).await;
    let counted = count.clone();
    let again = AtomicBool::new(false);
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .handle("note", move |job| {
            assert!(job.seq >= 5_000_000_000);
            counted.fetch_add(1, Ordering::SeqCst);
            async { Ok(Outcome::Done) }
        })
        // The second claim's outcome is accepted, so the first claim's snooze was too.
        .handle("snoozes", move |_| {
            let first = !again.swap(true, Ordering::SeqCst);
            async move { Ok(if first { Outcome::Snooze(Duration::ZERO) } else { Outcome::Done }) }
        })
        .start()
        .await
        .unwrap();
    let fresh = send_notes(&messages, 50).await;
    db.drained().await;
    assert_eq!(count.load(Ordering::SeqCst), fresh.len() + 1);
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().refused, 0);
}
