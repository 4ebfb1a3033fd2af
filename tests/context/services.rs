//! Message services of a program, around ours: they see the messages, write with them, refuse them, and are notified of the commit.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobwright::Store;
use jobwright::admin::JobState;
use jobwright::{
    CommandExecutor, CommitReceipt, Error, ErrorKind, FlushInto, Job, JobId, JobMessage, MessageService,
    MessageServices, NewJob, Outcome, Result, Unique, Written, async_trait,
};

use crate::support::environment::{World, at_once, quick};
use crate::support::jobs::{LATER, job};

/// The calls that services of one test saw, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    pub(crate) fn note(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Records all calls under a name.
pub(crate) struct Recording<S: Store> {
    name: &'static str,
    inner: Box<dyn MessageService<S>>,
    seen: Seen,
}

impl<S: Store> Recording<S> {
    pub(crate) fn around(messages: MessageServices<S>, name: &'static str, seen: &Seen) -> MessageServices<S> {
        let seen = seen.clone();
        messages.wrap(move |inner| Self { name, inner, seen: seen.clone() })
    }

    fn note(&self, what: &str, jobs: &[JobMessage]) {
        let jobs: Vec<_> =
            jobs.iter().map(|job| format!("{} {}", job.kind, job.payload.as_str().unwrap_or("?"))).collect();
        self.seen.note(format!("{} {what} [{}]", self.name, jobs.join(", ")));
    }
}

#[async_trait]
impl<S: Store> MessageService<S> for Recording<S> {
    wraps!(inner: S);

    fn send(&mut self, job: NewJob, sender: Option<&Job>) -> Result<JobId> {
        let of = sender.map_or("nobody", |sender| &sender.kind);
        self.seen.note(format!("{} send {} of {of}", self.name, job.kind()));
        self.inner.send(job, sender)
    }

    async fn flush(&mut self, into: &mut FlushInto<'_, S>) -> Result<Written> {
        self.note("flush", self.inner.pending());
        self.inner.flush(into).await
    }

    fn committed(&mut self, written: Written) -> CommitReceipt {
        self.note("committed", written.messages());
        self.inner.committed(written)
    }
}

/// When a service refuses a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refuses {
    Never,
    BeforeTheInner,
    AfterTheInner,
}

/// Writes a line of the ledger for each message, in its transaction.
pub(crate) struct Audit<W: World> {
    inner: Box<dyn MessageService<W::Store>>,
    refuses: Refuses,
    world: PhantomData<fn() -> W>,
}

impl<W: World> Audit<W> {
    pub(crate) fn around(messages: MessageServices<W::Store>, refuses: Refuses) -> MessageServices<W::Store> {
        messages.wrap(move |inner| Self { inner, refuses, world: PhantomData })
    }
}

#[async_trait]
impl<W: World> MessageService<W::Store> for Audit<W> {
    wraps!(inner: W::Store);

    fn send(&mut self, job: NewJob, sender: Option<&Job>) -> Result<JobId> {
        if job.kind() == "forbidden" {
            return Err(Error::refused("nobody sends this"));
        }
        self.inner.send(job, sender)
    }

    async fn flush(&mut self, into: &mut FlushInto<'_, W::Store>) -> Result<Written> {
        let transaction = into.transaction().await?;
        for job in self.inner.pending() {
            W::note_in(transaction, &job.id.to_string()).await?;
        }
        if self.refuses == Refuses::BeforeTheInner {
            return Err(Error::refused("not today"));
        }
        let written = self.inner.flush(into).await?;
        if self.refuses == Refuses::AfterTheInner {
            return Err(Error::refused("not today"));
        }
        Ok(written)
    }
}

/// Asserts that each job has its line and each line its job, and returns their number.
async fn audited<W: World>(db: &W) -> usize {
    let lines: Vec<String> = db.ledger().await.into_keys().collect();
    let mut jobs: Vec<String> = db.jobs().all().await.into_iter().map(|job| job.id.to_string()).collect();
    jobs.sort();
    assert_eq!(lines, jobs);
    jobs.len()
}

pub(crate) async fn a_service_sees_all_that_is_sent_and_hears_of_the_commit<W: World>(db: &W) {
    let seen = Seen::default();
    let messages = Recording::around(db.messages().await, "it", &seen);
    let mut cx = messages.begin();
    cx.send(NewJob::json("a", &1)).unwrap();
    cx.send(NewJob::json("b", &2).delay(LATER)).unwrap();
    cx.commit().await.unwrap();
    let all = ["it send a of nobody", "it send b of nobody", "it flush [a 1, b 2]", "it committed [a 1, b 2]"];
    assert_eq!(seen.take(), all);
    let mut cx = messages.begin();
    cx.transaction().await.unwrap();
    cx.send(NewJob::json("a", &3)).unwrap();
    cx.commit().await.unwrap();
    assert_eq!(seen.take(), ["it send a of nobody", "it flush [a 3]", "it committed [a 3]"]);
    messages.send(NewJob::json("a", &4)).await.unwrap();
    assert_eq!(seen.take(), ["it send a of nobody", "it flush [a 4]", "it committed [a 4]"]);
    // Nothing was sent: there is nothing to flush, and no service is notified.
    let mut cx = messages.begin();
    cx.transaction().await.unwrap();
    cx.commit().await.unwrap();
    assert!(seen.take().is_empty());
}

pub(crate) async fn a_service_sees_the_jobs_that_handlers_send_and_their_senders<W: World>(db: &W) {
    let seen = Seen::default();
    let messages = Recording::around(db.messages().await, "it", &seen);
    let executor = CommandExecutor::builder(messages)
        .config(quick())
        .handle_with("parent", |cx| {
            Box::pin(async move {
                cx.send(NewJob::json("child", &1).queue("elsewhere"))?;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    // Sent through other services, so that only the handler's context is seen.
    let parent = db.messages().await.send(NewJob::json("parent", &())).await.unwrap();
    db.gone(parent).await;
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
    assert_eq!(seen.take(), ["it send child of parent", "it flush [child 1]", "it committed [child 1]"]);
}

pub(crate) async fn it_hears_of_no_commit_that_did_not_happen<W: World>(db: &W) {
    let seen = Seen::default();
    let messages = Recording::around(db.messages().await, "it", &seen);
    let mut cx = messages.begin();
    cx.send(NewJob::json("a", &1)).unwrap();
    drop(cx);
    let mut cx = messages.begin();
    W::note(cx.transaction().await.unwrap(), "undone").await.unwrap();
    cx.send(NewJob::json("a", &2)).unwrap();
    cx.rollback().await.unwrap();
    assert_eq!(seen.take(), ["it send a of nobody", "it send a of nobody"]);
    // Refused at the flush: another job holds the key.
    messages.send(NewJob::json("a", &3).unique(Unique::key("key"))).await.unwrap();
    seen.take();
    let mut cx = messages.begin();
    W::note(cx.transaction().await.unwrap(), "undone").await.unwrap();
    cx.send(NewJob::json("a", &4).unique(Unique::key("key").reject())).unwrap();
    assert_eq!(cx.commit().await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(seen.take(), ["it send a of nobody", "it flush [a 4]"]);
    assert!(db.ledger().await.is_empty());
}

pub(crate) async fn an_audit_row_and_its_message_are_one_commit<W: World>(db: &W) {
    let messages = Audit::<W>::around(db.messages().await, Refuses::Never);
    let mut cx = messages.begin();
    cx.transaction().await.unwrap();
    cx.send(job()).unwrap();
    cx.send(job().delay(LATER)).unwrap();
    cx.commit().await.unwrap();
    messages.send(job()).await.unwrap();
    assert_eq!(audited(db).await, 3);
    let mut cx = messages.begin();
    cx.send(job()).unwrap();
    drop(cx);
    assert_eq!(audited(db).await, 3);
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .handle_with("parent", |cx| {
            Box::pin(async move {
                cx.send(NewJob::json("child", &1))?;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    let parent = db.messages().await.send(NewJob::json("parent", &())).await.unwrap();
    db.gone(parent).await;
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
    assert_eq!(audited(db).await, 4);
}

pub(crate) async fn a_refused_send_leaves_the_context_usable<W: World>(db: &W) {
    let messages = Audit::<W>::around(db.messages().await, Refuses::Never);
    let mut cx = messages.begin();
    cx.send(job()).unwrap();
    let error = cx.send(NewJob::json("forbidden", &1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("JW-REFUSED") && error.to_string().contains("nobody sends this"), "{error}");
    assert!(!error.is_retryable());
    cx.send(job()).unwrap();
    cx.commit().await.unwrap();
    assert_eq!(audited(db).await, 2);
}

pub(crate) async fn a_refused_flush_keeps_nothing<W: World>(db: &W) {
    for refuses in [Refuses::BeforeTheInner, Refuses::AfterTheInner] {
        let messages = Audit::<W>::around(db.messages().await, refuses);
        let error = messages.send(job()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        let mut cx = messages.begin();
        W::note(cx.transaction().await.unwrap(), "undone").await.unwrap();
        cx.send(job()).unwrap();
        assert_eq!(cx.commit().await.unwrap_err().kind(), ErrorKind::Refused);
        assert!(db.ledger().await.is_empty() && db.jobs().all().await.is_empty(), "{refuses:?}");
    }
}

/// It is retried by its kind's policy, and its dead letter names the reason.
pub(crate) async fn a_handler_whose_flush_is_refused_has_failed<W: World>(db: &W) {
    let messages = Audit::<W>::around(db.messages().await, Refuses::AfterTheInner);
    let executor = CommandExecutor::builder(messages)
        .config(quick())
        .kind_options("parent", at_once())
        .handle_with("parent", |cx| {
            Box::pin(async move {
                W::note(cx.transaction().await?, "undone").await?;
                cx.send(NewJob::json("child", &1))?;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    let parent = db.messages().await.send(NewJob::json("parent", &()).max_attempts(2)).await.unwrap();
    db.reaches(parent, JobState::Dead).await;
    executor.shutdown(Duration::from_secs(5)).await.unwrap();
    assert_eq!(db.jobs().all().await.len(), 1);
    assert!(db.ledger().await.is_empty());
    let dead = db.jobs().detail(parent).await;
    let why = &dead.errors.last().unwrap().error;
    assert!(why.contains("not today"), "{why}");
}

pub(crate) async fn services_wrap_in_the_order_they_were_added<W: World>(db: &W) {
    let seen = Seen::default();
    let messages = Recording::around(db.messages().await, "first", &seen);
    let messages = Recording::around(messages, "second", &seen);
    let hooks = seen.clone();
    let messages = messages.on_send(move |job, _| {
        hooks.note(format!("hook {}", job.kind()));
        Ok(job)
    });
    let messages = Recording::around(messages, "third", &seen);
    messages.send(NewJob::json("a", &1)).await.unwrap();
    let all = [
        "hook a",
        "third send a of nobody",
        "second send a of nobody",
        "first send a of nobody",
        "third flush [a 1]",
        "second flush [a 1]",
        "first flush [a 1]",
        "third committed [a 1]",
        "second committed [a 1]",
        "first committed [a 1]",
    ];
    assert_eq!(seen.take(), all);
}

/// A clone of the services keeps the services it has when others are put around the original.
pub(crate) async fn a_clone_keeps_the_services_it_has<W: World>(db: &W) {
    let seen = Seen::default();
    let plain = db.messages().await;
    let wrapped = Recording::around(plain.clone(), "it", &seen);
    plain.send(job()).await.unwrap();
    assert!(seen.take().is_empty());
    wrapped.send(job()).await.unwrap();
    assert_eq!(seen.take().len(), 3);
}
