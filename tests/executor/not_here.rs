//! Nodes that can't run a kind at the moment: it costs no job an attempt, and the node leaves the kind alone.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jobwright::admin::JobState;
use jobwright::{BatchOptions, CommandExecutor, ExecutorBuilder, ExecutorConfig, JobError, NewJob, Outcome};

use crate::support::environment::{PATIENCE, World, at_once, lease};
use crate::support::eventually;

/// What a handler needs, which may be missing, and how often the handler ran in vain.
#[derive(Clone, Default)]
struct Program {
    is_missing: Arc<AtomicBool>,
    in_vain: Arc<AtomicUsize>,
}

impl Program {
    fn missing() -> Self {
        let program = Self::default();
        program.is_missing.store(true, Ordering::SeqCst);
        program
    }

    fn put_back(&self) {
        self.is_missing.store(false, Ordering::SeqCst);
    }

    fn in_vain(&self) -> usize {
        self.in_vain.load(Ordering::SeqCst)
    }

    fn call(&self) -> Result<(), JobError> {
        if self.is_missing.load(Ordering::SeqCst) {
            self.in_vain.fetch_add(1, Ordering::SeqCst);
            return Err(JobError::not_here("there is no such program"));
        }
        Ok(())
    }
}

/// Notes its job, with the attempt, if its program is there.
fn run_by<W: World>(builder: ExecutorBuilder<W::Store>, kind: &str, program: &Program) -> ExecutorBuilder<W::Store> {
    let program = program.clone();
    builder.kind_options(kind, at_once()).handle_with(kind, move |cx| {
        let program = program.clone();
        Box::pin(async move {
            let text: String = cx.job().payload.decode()?;
            let line = format!("{text} {}", cx.job().attempt);
            W::note(cx.transaction().await?, &line).await?;
            program.call()?;
            Ok(Outcome::Done)
        })
    })
}

/// Polls often, and keeps its lease on a busy machine: a job with a single attempt would be a dead letter without it.
fn polling() -> ExecutorConfig {
    lease(30).poll_interval(Duration::from_millis(100))
}

/// A job that a single failed attempt makes a dead letter.
fn job(kind: &str, text: &str) -> NewJob {
    NewJob::json(kind, &text).max_attempts(1)
}

pub(crate) async fn a_node_that_can_run_nothing_takes_nothing_from_others<W: World>(db: &W) {
    let program = Program::missing();
    let (here, there) = (db.messages().await, db.messages().await);
    let broken = run_by::<W>(CommandExecutor::builder(here.clone()).config(polling()), "t", &program);
    let broken = broken.queue("default", 5).start().await.unwrap();
    let began = Instant::now();
    for n in 0..200 {
        here.send(job("t", &n.to_string())).await.unwrap();
    }
    eventually(PATIENCE, async || broken.left_alone().contains_key("t")).await;
    let whole = run_by::<W>(CommandExecutor::builder(there).config(polling()), "t", &Program::default());
    let whole = whole.queue("default", 5).start().await.unwrap();
    db.drained().await;
    // Five slots, and as many that were claimed when it stopped: once a pause, and the shortest is a second.
    let most = 10 * (1 + usize::try_from(began.elapsed().as_secs()).unwrap());
    assert!(program.in_vain() <= most, "{} jobs in vain, not {most}", program.in_vain());
    assert_eq!(db.ledger().await.len(), 200, "each ran once, in its first attempt");
    assert!(db.ledger().await.keys().all(|line| line.ends_with(" 1")));
    for executor in [broken, whole] {
        let stats = executor.shutdown(Duration::ZERO).await.unwrap();
        assert_eq!((stats.failed, stats.refused), (0, 0), "{stats:?}");
    }
}

pub(crate) async fn a_kind_that_is_left_alone_keeps_no_slot_and_comes_back<W: World>(db: &W) {
    let (program, fine) = (Program::missing(), Program::default());
    let messages = db.messages().await;
    let builder = CommandExecutor::builder(messages.clone()).config(polling()).queue("default", 2);
    let executor = run_by::<W>(run_by::<W>(builder, "bad", &program), "good", &fine).start().await.unwrap();
    let mut bad = Vec::new();
    for n in 0..10 {
        bad.push(messages.send(job("bad", &format!("bad {n}"))).await.unwrap());
    }
    eventually(PATIENCE, async || executor.left_alone().contains_key("bad")).await;
    assert_eq!(executor.left_alone()["bad"].0, "there is no such program");
    let shown = async || db.left_alone().await.map(|text| text.replace(": ", ":"));
    eventually(PATIENCE, async || shown().await.as_deref() == Some(r#"{"bad":"there is no such program"}"#)).await;
    for n in 0..10 {
        messages.send(job("good", &format!("good {n}"))).await.unwrap();
    }
    eventually(PATIENCE, async || db.ledger().await.len() == 10).await;
    let jobs = db.jobs();
    for id in &bad {
        let detail = jobs.detail(*id).await;
        assert_eq!((detail.summary.attempt, detail.errors.len()), (0, 0), "{detail:?}");
        assert!(matches!(detail.summary.state, JobState::Waiting | JobState::Timer), "{detail:?}");
    }
    program.put_back();
    db.drained().await;
    eventually(PATIENCE, async || executor.left_alone().is_empty() && shown().await.is_none()).await;
    assert_eq!(db.ledger().await.len(), 20);
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// What costs no attempt is bounded all the same.
pub(crate) async fn a_job_that_is_itself_the_cause_fails_in_the_end<W: World>(db: &W) {
    let messages = db.messages().await;
    let executor = CommandExecutor::builder(messages.clone())
        .config(polling())
        .handle("t", |job| async move {
            if job.payload.decode::<String>()? == "poison" {
                return Err(JobError::not_here("it can't be"));
            }
            Ok(Outcome::Done)
        })
        .start()
        .await
        .unwrap();
    let poison = messages.send(job("t", "poison")).await.unwrap();
    let jobs = db.jobs();
    eventually(PATIENCE, async || {
        messages.send(job("t", "another")).await.unwrap();
        jobs.state(poison).await == Some(JobState::Dead)
    })
    .await;
    assert_eq!(jobs.detail(poison).await.summary.last_error.as_deref(), Some("it can't be"));
    eventually(PATIENCE, async || jobs.all().await.len() == 1).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

pub(crate) async fn a_group_keeps_its_order<W: World>(db: &W) {
    let program = Program::missing();
    let messages = db.messages().await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let (noted, asked) = (order.clone(), program.clone());
    let executor = CommandExecutor::builder(messages.clone())
        .config(polling())
        .handle("t", move |job| {
            let (noted, asked) = (noted.clone(), asked.clone());
            async move {
                let number: usize = job.payload.decode()?;
                // After half of them it is missing again.
                if number == 5 && asked.in_vain() == 1 {
                    asked.is_missing.store(true, Ordering::SeqCst);
                }
                let called = asked.call();
                asked.put_back();
                called?;
                noted.lock().unwrap().push(number);
                Ok(Outcome::Done)
            }
        })
        .start()
        .await
        .unwrap();
    let mut context = messages.begin();
    for n in 0..10 {
        context.send(NewJob::json("t", &n).exclusive("g").max_attempts(1)).unwrap();
    }
    context.commit().await.unwrap();
    db.drained().await;
    assert_eq!(*order.lock().unwrap(), (0..10).collect::<Vec<_>>());
    assert_eq!(program.in_vain(), 2);
    executor.shutdown(Duration::ZERO).await.unwrap();
}

pub(crate) async fn a_batch_that_can_not_run_is_given_back<W: World>(db: &W) {
    let program = Program::missing();
    let messages = db.messages().await;
    let asked = program.clone();
    let executor = CommandExecutor::builder(messages.clone())
        .config(polling())
        .handle_batch("t", BatchOptions::new(5), move |batch| {
            let asked = asked.clone();
            Box::pin(async move {
                asked.call()?;
                Ok(batch.all_done())
            })
        })
        .start()
        .await
        .unwrap();
    for n in 0..20 {
        messages.send(job("t", &n.to_string())).await.unwrap();
    }
    eventually(PATIENCE, async || !executor.left_alone().is_empty()).await;
    program.put_back();
    db.drained().await;
    let stats = executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!((stats.done, stats.failed), (20, 0), "{stats:?}");
}

/// A check that fails keeps the jobs from a node before it has claimed a single one.
pub(crate) async fn a_check_is_asked_before_jobs_are_taken<W: World>(db: &W) {
    let program = Program::missing();
    let messages = db.messages().await;
    let id = messages.send(job("t", "1")).await.unwrap();
    let checked = program.is_missing.clone();
    let check = move || if checked.load(Ordering::SeqCst) { Err("not installed".to_owned()) } else { Ok(()) };
    let builder = CommandExecutor::builder(messages.clone()).config(polling()).check_kind("t", check);
    let builder = run_by::<W>(builder, "t", &program).handle("other", |_| async { Ok(Outcome::Done) });
    let executor = builder.start().await.unwrap();
    assert_eq!(executor.left_alone()["t"].0, "not installed");
    // The node works.
    let other = messages.send(job("other", "2")).await.unwrap();
    let jobs = db.jobs();
    eventually(PATIENCE, async || jobs.state(other).await.is_none()).await;
    // The check is asked again, and again in vain.
    eventually(PATIENCE, async || executor.left_alone()["t"].1.elapsed() > Duration::from_secs(2)).await;
    assert_eq!((program.in_vain(), executor.stats().released, jobs.detail(id).await.version), (0, 0, 0));
    program.put_back();
    db.drained().await;
    assert!(executor.left_alone().is_empty());
    executor.shutdown(Duration::ZERO).await.unwrap();

    let unknown = CommandExecutor::builder(messages).check_kind("else", || Ok(())).without_handlers().start().await;
    assert!(unknown.unwrap_err().to_string().contains("else"));
}
