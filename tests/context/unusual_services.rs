//! Message services that do not flush once and in time, but not at all, twice, too late, never, or with a panic.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::FutureExt;
use jobwright::Store;
use jobwright::admin::JobState;
use jobwright::{
    BatchOptions, CommandExecutor, CommitReceipt, Error, ErrorKind, FlushInto, JobError, MessageService,
    MessageServices, NewJob, Outcome, Result, Unique, Written, async_trait,
};

use crate::context::services::Seen;
use crate::support::environment::{World, at_once, patient, quick};
use crate::support::jobs::job;

/// Long enough for any flush here.
const SOON: Duration = Duration::from_secs(2);

/// Flushes nothing.
struct Drops<S: Store>(Box<dyn MessageService<S>>);

#[async_trait]
impl<S: Store> MessageService<S> for Drops<S> {
    wraps!(0: S);

    async fn flush(&mut self, _: &mut FlushInto<'_, S>) -> Result<Written> {
        Ok(Written::nothing())
    }
}

pub(crate) async fn a_service_may_keep_messages_to_itself<W: World>(db: &W) {
    let messages = db.messages().await.wrap(Drops);
    messages.send(job()).await.unwrap();
    let mut cx = messages.begin();
    W::note(cx.transaction().await.unwrap(), "kept").await.unwrap();
    cx.send(job()).unwrap();
    cx.commit().await.unwrap();
    assert!(db.jobs().all().await.is_empty());
    assert_eq!(db.ledger().await, BTreeMap::from([("kept".to_owned(), 1)]));
}

/// Sends one more message with each flush.
struct SendsMore<S: Store>(Box<dyn MessageService<S>>);

#[async_trait]
impl<S: Store> MessageService<S> for SendsMore<S> {
    wraps!(0: S);

    async fn flush(&mut self, into: &mut FlushInto<'_, S>) -> Result<Written> {
        self.0.send(NewJob::json("more", &2), None)?;
        self.0.flush(into).await
    }
}

pub(crate) async fn a_service_may_send_more_at_the_flush<W: World>(db: &W) {
    let messages = db.messages().await.wrap(SendsMore);
    messages.send(NewJob::json("a", &1)).await.unwrap();
    let mut cx = messages.begin();
    cx.transaction().await.unwrap();
    cx.send(NewJob::json("a", &1)).unwrap();
    cx.commit().await.unwrap();
    let kinds: Vec<_> = db.jobs().all().await.into_iter().map(|job| job.kind).collect();
    assert_eq!(kinds, ["a", "more", "a", "more"]);
}

/// Records the ids that it was notified of.
struct Tells<S: Store> {
    inner: Box<dyn MessageService<S>>,
    seen: Seen,
}

impl<S: Store> MessageService<S> for Tells<S> {
    wraps!(inner: S);

    fn committed(&mut self, written: Written) -> CommitReceipt {
        for job in written.messages() {
            self.seen.note(format!("written {}", job.id));
        }
        for (sent, holder) in written.duplicates() {
            self.seen.note(format!("kept {sent} by {holder}"));
        }
        self.inner.committed(written)
    }
}

pub(crate) async fn unique_jobs_that_were_not_written_are_reported<W: World>(db: &W) {
    let seen = Seen::default();
    let tells = seen.clone();
    let messages = db.messages().await.wrap(move |inner| Tells { inner, seen: tells.clone() });
    let holder = messages.send(job().unique(Unique::key("key"))).await.unwrap();
    assert_eq!(seen.take(), [format!("written {holder}")]);
    for transaction in [false, true] {
        let mut cx = messages.begin();
        if transaction {
            cx.transaction().await.unwrap();
        }
        let kept = cx.send(job().unique(Unique::key("key"))).unwrap();
        let other = cx.send(job()).unwrap();
        cx.commit().await.unwrap();
        assert_eq!(seen.take(), [format!("written {other}"), format!("kept {kept} by {holder}")]);
    }
}

/// Asks for the transaction when it is too late.
struct AsksTooLate<S: Store>(Box<dyn MessageService<S>>);

#[async_trait]
impl<S: Store> MessageService<S> for AsksTooLate<S> {
    wraps!(0: S);

    async fn flush(&mut self, into: &mut FlushInto<'_, S>) -> Result<Written> {
        let written = self.0.flush(into).await?;
        into.transaction().await?;
        Ok(written)
    }
}

/// An error that said "nothing was kept" would be wrong.
pub(crate) async fn a_transaction_opened_after_the_flush_fails_with_commit_unknown<W: World>(db: &W) {
    let messages = db.messages().await.wrap(AsksTooLate);
    let error = messages.send(job()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommitUnknown, "{error}");
    assert!(error.to_string().contains("they are sent"), "{error}");
    assert_eq!(db.jobs().all().await.len(), 1);
    // With the context's own transaction it is in time.
    let mut cx = messages.begin();
    cx.transaction().await.unwrap();
    cx.send(job()).unwrap();
    cx.commit().await.unwrap();
    assert_eq!(db.jobs().all().await.len(), 2);
}

/// Does not wait for the answer of the inner one.
struct GivesUp<S: Store>(Box<dyn MessageService<S>>);

#[async_trait]
impl<S: Store> MessageService<S> for GivesUp<S> {
    wraps!(0: S);

    async fn flush(&mut self, into: &mut FlushInto<'_, S>) -> Result<Written> {
        self.0.flush(into).now_or_never().unwrap_or_else(|| Err(Error::refused("too late")))
    }
}

/// The statement may be on its way to the server, and can't be called back.
pub(crate) async fn an_abandoned_flush_fails_with_commit_unknown<W: World>(db: &W) {
    let messages = db.messages().await.wrap(GivesUp);
    let mut answered = 0;
    let error = loop {
        match messages.send(job()).await {
            Err(error) => break error,
            // This thread may have had to wait for a processor in the meantime.
            Ok(_) => answered += 1,
        }
        assert!(answered < 100, "the answer is always there at once");
    };
    assert_eq!(error.kind(), ErrorKind::CommitUnknown, "{error}");
    assert!(error.to_string().contains("they may be sent"), "{error}");
    // In a transaction of the context it is rolled back.
    let mut cx = messages.begin();
    W::note(cx.transaction().await.unwrap(), "undone").await.unwrap();
    cx.send(job().queue("undone")).unwrap();
    // The database may have answered at once.
    if let Err(error) = cx.commit().await {
        assert_eq!(error.kind(), ErrorKind::Refused);
        assert!(db.ledger().await.is_empty());
        assert!(db.jobs().all().await.iter().all(|job| job.queue != "undone"));
    }
}

struct Nothing;

impl<S: Store> MessageService<S> for Nothing {}

pub(crate) async fn a_service_that_implements_nothing_and_wraps_none_says_so<W: World>(db: &W) {
    let messages = db.messages().await.wrap(|_| Nothing);
    let error = messages.send(job()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("does not implement `send`"), "{error}");
    assert!(db.jobs().all().await.is_empty());
}

/// How a service misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    PanicInFlush,
    PanicInCommitted,
    HangInFlush,
}

struct Faulty<S: Store> {
    inner: Box<dyn MessageService<S>>,
    fault: Fault,
}

#[async_trait]
impl<S: Store> MessageService<S> for Faulty<S> {
    wraps!(inner: S);

    async fn flush(&mut self, into: &mut FlushInto<'_, S>) -> Result<Written> {
        into.transaction().await?;
        let written = self.inner.flush(into).await?;
        match self.fault {
            Fault::PanicInFlush => panic!("all is lost"),
            Fault::HangInFlush => std::future::pending().await,
            Fault::PanicInCommitted => Ok(written),
        }
    }

    fn committed(&mut self, written: Written) -> CommitReceipt {
        assert_ne!(self.fault, Fault::PanicInCommitted, "all is lost");
        self.inner.committed(written)
    }
}

async fn faulty<W: World>(db: &W, fault: Fault) -> MessageServices<W::Store> {
    let mut config = db.config();
    config.call_timeout = SOON;
    let messages = MessageServices::new(db.messages().await.store().clone(), &config);
    messages.wrap(move |inner| Faulty { inner, fault })
}

/// A job whose flush never ends, or panics, does not belong to its node forever, and neither does its slot.
pub(crate) async fn a_service_that_panics_or_hangs_fails_the_commit<W: World>(db: &W) {
    for (fault, kind) in [(Fault::PanicInFlush, ErrorKind::Refused), (Fault::HangInFlush, ErrorKind::Timeout)] {
        let messages = faulty(db, fault).await;
        let error = messages.send(job()).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(db.jobs().count(JobState::Waiting).await, 0, "{fault:?}");
        let executor = CommandExecutor::builder(messages)
            .config(quick())
            .queue("default", 1)
            .kind_options("parent", at_once())
            .handle_with("parent", |cx| {
                Box::pin(async move {
                    W::note(cx.transaction().await?, "undone").await?;
                    cx.send(NewJob::json("child", &1))?;
                    Ok(Outcome::Done)
                })
            })
            .handle("other", |_| async { Ok(Outcome::Done) })
            .start()
            .await
            .unwrap();
        let plain = db.messages().await;
        let parent = plain.send(NewJob::json("parent", &()).max_attempts(2)).await.unwrap();
        db.reaches(parent, JobState::Dead).await;
        let why = &db.jobs().detail(parent).await.errors.last().unwrap().error.clone();
        assert!(
            why.contains(if fault == Fault::PanicInFlush { "all is lost" } else { "did not flush within" }),
            "{why}"
        );
        let other = plain.send(NewJob::json("other", &())).await.unwrap();
        db.gone(other).await;
        executor.shutdown(Duration::from_secs(5)).await.unwrap();
        assert!(db.ledger().await.is_empty());
        assert_eq!(db.jobs().count(JobState::Waiting).await, 0, "{fault:?}");
    }
}

/// The commit stands, and its caller is told so.
pub(crate) async fn a_panic_after_the_commit_changes_nothing<W: World>(db: &W) {
    let messages = faulty(db, Fault::PanicInCommitted).await;
    messages.send(job()).await.unwrap();
    let executor = CommandExecutor::builder(messages)
        .config(quick())
        .handle_with("parent", |cx| {
            Box::pin(async move {
                let line = cx.job().id.to_string();
                W::note(cx.transaction().await?, &line).await?;
                cx.send(NewJob::json("child", &1).queue("elsewhere"))?;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    let parent = db.messages().await.send(NewJob::json("parent", &())).await.unwrap();
    db.gone(parent).await;
    let ended = executor.shutdown(Duration::from_secs(5)).await.unwrap();
    assert_eq!((ended.done, ended.refused), (1, 0));
    assert_eq!(db.ledger().await.into_keys().collect::<Vec<_>>(), [parent.to_string()]);
    assert_eq!(db.jobs().all().await.len(), 2, "what was sent alone, and the child");
}

/// Flushes, sends one more message, and flushes again.
struct Twice<S: Store>(Box<dyn MessageService<S>>);

#[async_trait]
impl<S: Store> MessageService<S> for Twice<S> {
    wraps!(0: S);

    async fn flush(&mut self, into: &mut FlushInto<'_, S>) -> Result<Written> {
        into.transaction().await?;
        let first = self.0.flush(into).await?;
        self.0.send(NewJob::json("second", &2), None)?;
        Ok(first.and(self.0.flush(into).await?))
    }
}

/// Each flush writes its own row, which goes to a free slot of this process or is found at once: the next poll is an hour away.
pub(crate) async fn jobs_of_two_flushes_run_at_once<W: World>(db: &W) {
    let messages = db.messages().await.wrap(Twice);
    let executor = CommandExecutor::builder(messages.clone())
        .config(patient())
        .handle("first", |_| async { Ok(Outcome::Done) })
        .handle("second", |_| async { Ok(Outcome::Done) })
        .start()
        .await
        .unwrap();
    for _ in 0..3 {
        messages.send(NewJob::json("first", &1)).await.unwrap();
        db.drained().await;
    }
    let ended = executor.shutdown(Duration::from_secs(5)).await.unwrap();
    assert_eq!((ended.done, ended.refused), (6, 0));
}

/// Panics when it is dropped, which happens without a flush when a handler fails.
struct PanicsWhenDropped<S: Store>(Box<dyn MessageService<S>>);

#[async_trait]
impl<S: Store> MessageService<S> for PanicsWhenDropped<S> {
    wraps!(0: S);
}

impl<S: Store> Drop for PanicsWhenDropped<S> {
    fn drop(&mut self) {
        panic!("all is lost");
    }
}

/// Jobs get their outcomes and slots are free again, however the handlers ended: with and without a transaction, by a timeout, in a batch.
pub(crate) async fn a_panic_of_a_dropped_service_keeps_no_job<W: World>(db: &W) {
    let messages = db.messages().await.wrap(PanicsWhenDropped);
    let executor = CommandExecutor::builder(messages)
        .config(quick())
        .queue("default", 1)
        .kind_options("fails", at_once())
        .kind_options("slow", at_once().timeout(Duration::from_millis(100)))
        .kind_options("batch", at_once())
        .handle_with("fails", |cx| {
            Box::pin(async move {
                if cx.job().attempt == 1 {
                    W::note(cx.transaction().await?, "undone").await?;
                }
                cx.send(NewJob::json("child", &1))?;
                Err(JobError::new("it fails"))
            })
        })
        .handle_with("slow", |cx| {
            Box::pin(async move {
                cx.send(NewJob::json("child", &1))?;
                std::future::pending().await
            })
        })
        .handle_batch("batch", BatchOptions::new(1), |batch| {
            Box::pin(async move {
                batch.send(&batch.jobs()[0], NewJob::json("child", &1))?;
                Err(JobError::new("all of it fails"))
            })
        })
        .handle("other", |_| async { Ok(Outcome::Done) })
        .start()
        .await
        .unwrap();
    let plain = db.messages().await;
    for (kind, why) in [("fails", "it fails"), ("slow", "did not finish within"), ("batch", "all of it fails")] {
        let id = plain.send(NewJob::json(kind, &()).max_attempts(2)).await.unwrap();
        db.reaches(id, JobState::Dead).await;
        let errors = db.jobs().detail(id).await.errors;
        assert!(errors.len() == 2 && errors.iter().all(|attempt| attempt.error.contains(why)), "{errors:?}");
    }
    let other = plain.send(NewJob::json("other", &())).await.unwrap();
    db.gone(other).await;
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
    assert!(db.ledger().await.is_empty());
    assert_eq!(db.jobs().count(JobState::Waiting).await, 0, "no child");
}

/// Flushes with a commit of its own, sends one more message, and flushes again.
struct CommitsTwice<S: Store>(Box<dyn MessageService<S>>);

#[async_trait]
impl<S: Store> MessageService<S> for CommitsTwice<S> {
    wraps!(0: S);

    async fn flush(&mut self, into: &mut FlushInto<'_, S>) -> Result<Written> {
        let first = self.0.flush(into).await?;
        self.0.send(job().unique(Unique::key("taken").reject()), None)?;
        Ok(first.and(self.0.flush(into).await?))
    }
}

/// The second flush fails, and keeps nothing. The first one is committed all the same.
pub(crate) async fn a_failure_after_a_commit_of_its_own_says_that_it_is_sent<W: World>(db: &W) {
    let messages = db.messages().await;
    messages.send(job().unique(Unique::key("taken"))).await.unwrap();
    let error = messages.wrap(CommitsTwice).send(job()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommitUnknown, "{error}");
    assert!(error.to_string().contains("they are sent"), "{error}");
    assert_eq!(db.jobs().all().await.len(), 2);
}

/// An error that a service makes of a temporary driver error is retryable.
#[test]
fn an_error_that_may_go_away_is_retryable() {
    let refused = Error::refused("no");
    assert!(!refused.is_retryable());
    assert_eq!(Error::refused(refused).kind(), ErrorKind::Refused);
    #[cfg(feature = "sqlite")]
    {
        let busy = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None);
        assert_eq!(Error::refused(busy).kind(), ErrorKind::Busy);
    }
}
