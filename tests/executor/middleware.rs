//! Middleware around handlers and around sending, and the trace that passes through both.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobwright::admin::JobState;
use jobwright::headers::{TRACEPARENT, TRACESTATE};
use jobwright::{
    BatchOptions, CommandExecutor, ErrorKind, ExecutorBuilder, Job, JobError, JobId, MessageServices, Middleware,
    NewJob, Next, Outcome, TraceContext,
};

use crate::support::environment::{World, at_once, quick};

type Log = Arc<Mutex<Vec<String>>>;

/// Logs when it is called.
struct Writes(&'static str, Log);

impl Middleware for Writes {
    async fn around(&self, job: &Job, next: Next<'_>) -> Result<Outcome, JobError> {
        self.1.lock().unwrap().push(format!("{} {} before", self.0, job.kind));
        let ended = next.run().await;
        self.1.lock().unwrap().push(format!("{} {} after {ended:?}", self.0, job.kind));
        ended
    }
}

/// Changes the result of handlers.
struct Ends<F>(F);

impl<F: Fn(&Job, Result<Outcome, JobError>) -> Result<Outcome, JobError> + Send + Sync + 'static> Middleware
    for Ends<F>
{
    async fn around(&self, job: &Job, next: Next<'_>) -> Result<Outcome, JobError> {
        let ended = next.run().await;
        (self.0)(job, ended)
    }
}

fn builder<W: World>(messages: &MessageServices<W::Store>) -> ExecutorBuilder<W::Store> {
    CommandExecutor::builder(messages.clone()).config(quick())
}

/// Builds an executor with a handler `note` that writes into the ledger, sends `sent`, and ends as its payload says.
fn noting<W: World>(messages: &MessageServices<W::Store>) -> ExecutorBuilder<W::Store> {
    builder::<W>(messages).kind_options("note", at_once()).handle_with("note", |cx| {
        Box::pin(async move {
            let line = cx.job().id.to_string();
            W::note(cx.transaction().await?, &line).await?;
            cx.send(NewJob::json("sent", &()).queue("elsewhere"))?;
            if cx.job().payload.decode()? { Ok(Outcome::Done) } else { Err(JobError::new("no")) }
        })
    })
}

pub(crate) async fn middleware_runs_around_handlers_in_the_order_it_was_added<W: World>(db: &W) {
    let messages = db.messages().await;
    let log = Log::default();
    let executor = builder::<W>(&messages)
        .middleware(Writes("outer", log.clone()))
        .middleware(Writes("inner", log.clone()))
        .handle("works", |_| async { Ok(Outcome::Done) })
        .start()
        .await
        .unwrap();
    messages.send(NewJob::json("works", &())).await.unwrap();
    db.drained().await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!(
        *log.lock().unwrap(),
        ["outer works before", "inner works before", "inner works after Ok(Done)", "outer works after Ok(Done)"]
    );
}

pub(crate) async fn middleware_sees_a_panic_as_an_error<W: World>(db: &W) {
    let messages = db.messages().await;
    let log = Log::default();
    let executor = builder::<W>(&messages)
        .middleware(Writes("around", log.clone()))
        .handle("panics", |_| async { panic!("all is lost") })
        .start()
        .await
        .unwrap();
    let id = messages.send(NewJob::json("panics", &()).max_attempts(1)).await.unwrap();
    db.reaches(id, JobState::Dead).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    let log = log.lock().unwrap();
    assert!(log[1].contains("around panics after Err") && log[1].contains("all is lost"), "{log:?}");
}

pub(crate) async fn a_middleware_that_panics_fails_the_attempt<W: World>(db: &W) {
    let messages = db.messages().await;
    let executor = noting::<W>(&messages).middleware(Ends(|_: &Job, _| panic!("around it"))).start().await.unwrap();
    let id = messages.send(NewJob::json("note", &true).max_attempts(1)).await.unwrap();
    db.reaches(id, JobState::Dead).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    assert!(db.jobs().detail(id).await.errors[0].error.contains("around it"));
    assert!(db.ledger().await.is_empty());
}

/// The handler returned `Done`, but its work is rolled back.
pub(crate) async fn a_middleware_that_fails_an_attempt_rolls_it_back<W: World>(db: &W) {
    let messages = db.messages().await;
    let executor = noting::<W>(&messages)
        .middleware(Ends(|job: &Job, ended| if job.attempt < 3 { Err(JobError::new("not yet")) } else { ended }))
        .start()
        .await
        .unwrap();
    let id = messages.send(NewJob::json("note", &true)).await.unwrap();
    db.gone(id).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    db.each_once(&[id]).await;
    assert_eq!(db.jobs().all().await.len(), 1, "only the last attempt has sent");
}

/// The handler failed half-way: a middleware that returns `Done` does not commit that half.
pub(crate) async fn a_middleware_can_not_commit_for_the_handler<W: World>(db: &W) {
    let messages = db.messages().await;
    let executor = noting::<W>(&messages).middleware(Ends(|_: &Job, _| Ok(Outcome::Done))).start().await.unwrap();
    let id = messages.send(NewJob::json("note", &false)).await.unwrap();
    db.gone(id).await;
    assert_eq!(executor.shutdown(Duration::ZERO).await.unwrap().done, 1);
    assert!(db.ledger().await.is_empty());
    assert!(db.jobs().all().await.is_empty(), "nothing was sent");
}

pub(crate) async fn a_middleware_may_end_a_job_without_its_handler<W: World>(db: &W) {
    struct OnlyTenants;
    impl Middleware for OnlyTenants {
        async fn around(&self, job: &Job, next: Next<'_>) -> Result<Outcome, JobError> {
            if !job.headers.contains_key("tenant") {
                return Ok(Outcome::Dead("it has no tenant".to_owned()));
            }
            next.run().await
        }
    }
    let messages = db.messages().await;
    let executor = noting::<W>(&messages).middleware(OnlyTenants).start().await.unwrap();
    let without = messages.send(NewJob::json("note", &true)).await.unwrap();
    let with = messages.send(NewJob::json("note", &true).header("tenant", "acme")).await.unwrap();
    db.reaches(without, JobState::Dead).await;
    db.gone(with).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    db.each_once(&[with]).await;
}

/// Two jobs reach the handler, one is kept from it, and each has its own outcome.
pub(crate) async fn middleware_runs_around_each_job_of_a_batch<W: World>(db: &W) {
    struct Keeps(Log);
    impl Middleware for Keeps {
        async fn around(&self, job: &Job, next: Next<'_>) -> Result<Outcome, JobError> {
            if job.payload.decode::<u32>()? == 1 {
                return Err(JobError::fatal("kept"));
            }
            let ended = next.run().await;
            self.0.lock().unwrap().push(format!("{ended:?}"));
            ended
        }
    }
    let messages = db.messages().await;
    let log = Log::default();
    let mut cx = messages.begin();
    let ids: Vec<JobId> = (0..3).map(|n| cx.send(NewJob::json("many", &n)).unwrap()).collect();
    cx.commit().await.unwrap();
    let executor = builder::<W>(&messages)
        .middleware(Keeps(log.clone()))
        .handle_batch("many", BatchOptions::new(3).wait(Duration::from_secs(30)), |batch| {
            Box::pin(async move {
                let payloads: Vec<u32> = batch.jobs().iter().map(|job| job.payload.decode().unwrap()).collect();
                assert_eq!(payloads, [0, 2]);
                Ok(batch.all_done())
            })
        })
        .start()
        .await
        .unwrap();
    db.reaches(ids[1], JobState::Dead).await;
    db.gone(ids[0]).await;
    db.gone(ids[2]).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    assert_eq!(*log.lock().unwrap(), ["Ok(Done)", "Ok(Done)"]);
}

pub(crate) async fn a_send_hook_sees_all_that_is_sent_and_may_change_it<W: World>(db: &W) {
    let messages = db.messages().await.on_send(|job, sender| {
        Ok(job.header("from", sender.map_or_else(|| "outside".to_owned(), |sender| sender.kind.clone())))
    });
    let executor = noting::<W>(&messages).start().await.unwrap();
    let outside = messages.send(NewJob::json("note", &true).delay(crate::support::jobs::LATER)).await.unwrap();
    assert_eq!(db.jobs().detail(outside).await.headers["from"], "outside");
    let id = messages.send(NewJob::json("note", &true)).await.unwrap();
    db.gone(id).await;
    db.counts(JobState::Waiting, 1).await;
    let sent = db.jobs().count(JobState::Waiting).await;
    assert_eq!(sent, 1);
    let waiting = db.jobs().find(&jobwright::admin::JobFilter::state(JobState::Waiting)).await;
    assert_eq!(db.jobs().detail(waiting[0].id).await.headers["from"], "note");
    executor.shutdown(Duration::ZERO).await.unwrap();
}

pub(crate) async fn a_send_hook_refuses_a_job_and_leaves_the_context_usable<W: World>(db: &W) {
    let called = Arc::new(AtomicUsize::new(0));
    let later = called.clone();
    let messages = db
        .messages()
        .await
        .on_send(|job, _| if job.kind() == "bad" { Err("it has no tenant".into()) } else { Ok(job) })
        .on_send(move |job, _| {
            later.fetch_add(1, Ordering::SeqCst);
            Ok(job)
        });
    let mut cx = messages.begin();
    let error = cx.send(NewJob::json("bad", &())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.to_string(), "JW-INVALID: a send hook refused the job of kind \"bad\": it has no tenant");
    let good = cx.send(NewJob::json("good", &())).unwrap();
    cx.commit().await.unwrap();
    assert_eq!(db.jobs().all().await.iter().map(|job| job.id).collect::<Vec<_>>(), [good]);
    assert_eq!(called.load(Ordering::SeqCst), 1);
}

/// The trace goes from the sender to the handler, and on through the jobs that this sends.
pub(crate) async fn a_trace_goes_from_the_sender_through_handlers<W: World>(db: &W) {
    let messages = db.messages().await;
    let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let executor = builder::<W>(&messages)
        .handle_with("hop", move |cx| {
            let sender = sender.clone();
            Box::pin(async move {
                sender.send((cx.job().headers.clone(), cx.trace())).unwrap();
                let left: u32 = cx.job().payload.decode()?;
                if left > 0 {
                    cx.send(NewJob::json("hop", &(left - 1)))?;
                }
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    let root = TraceContext::root();
    messages.send(NewJob::json("hop", &2).trace(root).header(TRACESTATE, "vendor=1")).await.unwrap();
    let mut before = root;
    for _ in 0..3 {
        let (headers, here) = seen.recv().await.unwrap();
        let here = here.unwrap();
        assert_eq!(headers[TRACEPARENT], before.to_string(), "what it was sent by");
        assert_eq!(headers[TRACESTATE], "vendor=1");
        assert_eq!(here.trace_id(), root.trace_id());
        assert_ne!(here.span_id(), before.span_id(), "a step of its own");
        before = here;
    }
    db.drained().await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

pub(crate) async fn a_job_of_no_trace_begins_none<W: World>(db: &W) {
    let messages = db.messages().await;
    let (sender, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let executor = builder::<W>(&messages)
        .handle_with("plain", move |cx| {
            let sender = sender.clone();
            Box::pin(async move {
                sender.send((cx.job().headers.clone(), cx.trace())).unwrap();
                if cx.job().payload.decode()? {
                    cx.send(NewJob::json("plain", &false))?;
                    let own = TraceContext::root();
                    cx.send(NewJob::json("plain", &false).trace(own))?;
                }
                Ok(Outcome::Done)
            })
        })
        .queue("default", 1)
        .start()
        .await
        .unwrap();
    messages.send(NewJob::json("plain", &true).header(TRACEPARENT, "00-1-2-01")).await.unwrap();
    assert_eq!(seen.recv().await.unwrap().1, None, "one that can't be read is none");
    assert!(seen.recv().await.unwrap().0.is_empty());
    assert!(seen.recv().await.unwrap().1.is_some(), "what the handler says itself counts");
    db.drained().await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// The destination of a log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A single thread, so that the handler uses the same subscriber.
#[cfg(feature = "sqlite")]
#[tokio::test]
async fn log_lines_of_a_handler_name_its_job_and_trace() {
    use crate::support::sqlite::SqliteDb;

    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _default = tracing::subscriber::set_default(subscriber);
    let db = SqliteDb::with_ledger().await.unwrap();
    let messages = db.messages().await;
    let executor = builder::<SqliteDb>(&messages)
        .handle("logs", |job| async move {
            tracing::info!("here is {}", if job.headers.is_empty() { "a plain one" } else { "a traced one" });
            Ok(Outcome::Done)
        })
        .queue("special", 1)
        .start()
        .await
        .unwrap();
    let trace = TraceContext::root();
    let traced = messages.send(NewJob::json("logs", &()).queue("special").trace(trace)).await.unwrap();
    db.gone(traced).await;
    let plain = messages.send(NewJob::json("logs", &()).queue("special")).await.unwrap();
    db.gone(plain).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let line = |of: &str| log.lines().find(|line| line.contains(of)).unwrap_or_else(|| panic!("{log}")).to_owned();
    let (traced_line, plain_line) = (line("here is a traced one"), line("here is a plain one"));
    for part in [format!("id={traced}"), "kind=logs".to_owned(), "queue=special".to_owned(), "attempt=1".to_owned()] {
        assert!(traced_line.contains(&part), "{traced_line} lacks {part}");
    }
    assert!(traced_line.contains(&trace.trace_id()), "{traced_line}");
    assert!(plain_line.contains(&format!("id={plain}")) && !plain_line.contains("trace_id"), "{plain_line}");
}

/// A service that logs warnings alone still learns which job failed.
#[cfg(feature = "sqlite")]
#[tokio::test]
async fn errors_name_their_job_where_only_warnings_are_logged() {
    use crate::support::sqlite::SqliteDb;

    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _default = tracing::subscriber::set_default(subscriber);
    let db = SqliteDb::with_ledger().await.unwrap();
    let messages = db.messages().await;
    let executor = builder::<SqliteDb>(&messages)
        .handle("fails", |_| async { Err(JobError::fatal("no such order")) })
        .queue("special", 1)
        .start()
        .await
        .unwrap();
    let id = messages.send(NewJob::json("fails", &()).queue("special")).await.unwrap();
    db.reaches(id, JobState::Dead).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
    let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let line = log.lines().find(|line| line.contains("no such order")).unwrap_or_else(|| panic!("{log}"));
    for part in [format!("id={id}"), "kind=fails".to_owned(), "queue=special".to_owned(), "attempt=1".to_owned()] {
        assert!(line.contains(&part), "{line} lacks {part}");
    }
}
