//! Commits whose answer is lost.

use std::time::Duration;

use jobwright::{Error, ErrorKind, FlushInto, MessageService, MessageServices, Postgres, Written, async_trait};

use crate::support::environment::{PATIENCE, World};
use crate::support::jobs::job;
use crate::support::postgres::Pg;
use crate::support::proxy::Proxy;
use crate::support::{TestDb, eventually};

/// Creates message services behind a proxy, with a short deadline.
async fn behind(proxy: &Proxy, db: &Pg<false>) -> MessageServices {
    let config = db.config_by(proxy.address).call_timeout(Duration::from_millis(1500));
    MessageServices::postgres(&config).await.unwrap()
}

/// Returns how many lines and jobs are in the database.
async fn kept(db: &Pg<false>) -> (usize, usize) {
    (db.ledger().await.len(), db.jobs().all().await.len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_killed_before_the_commit_is_an_error() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = db.messages().await;
    for with_messages in [false, true] {
        let mut cx = messages.begin();
        if with_messages {
            cx.send(job()).unwrap();
        }
        let transaction = cx.transaction().await.unwrap();
        Pg::<false>::note(transaction, "undone").await.unwrap();
        transaction.execute("select pg_terminate_backend(pg_backend_pid())", &[]).await.unwrap_err();
        // The driver notices it a little later.
        crate::support::eventually(Duration::from_secs(5), async || transaction.is_closed()).await;
        let error = cx.commit().await.unwrap_err();
        // It is certain that nothing was kept: COMMIT was never sent.
        assert_ne!(error.kind(), ErrorKind::CommitUnknown, "{error}");
        assert!(error.is_retryable(), "{error}");
        assert_eq!(kept(&db).await, (0, 0));
    }
    // Others are not affected.
    messages.send(job()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_got_lost_is_found_out() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let proxy = Proxy::start(db.address()).await;
    let messages = behind(&proxy, &db).await;
    let mut cx = messages.begin();
    cx.send(job()).unwrap();
    Pg::<false>::note(cx.transaction().await.unwrap(), "kept").await.unwrap();
    proxy.swallow_answer_to("; commit");
    cx.commit().await.unwrap();
    assert_eq!(proxy.swallowed(), 1);
    assert_eq!(kept(&db).await, (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_never_arrived_is_found_out() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let proxy = Proxy::start(db.address()).await;
    let messages = behind(&proxy, &db).await;
    let mut cx = messages.begin();
    cx.send(job()).unwrap();
    Pg::<false>::note(cx.transaction().await.unwrap(), "undone").await.unwrap();
    proxy.swallow("; commit");
    let error = cx.commit().await.unwrap_err();
    assert_eq!(proxy.swallowed(), 1);
    assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
    assert_eq!(kept(&db).await, (0, 0));
}

/// Without messages, the transaction's number is not known before the commit. "Unknown" is then a correct answer, and a wrong answer is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_without_messages_is_never_answered_wrongly() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let proxy = Proxy::start(db.address()).await;
    let messages = behind(&proxy, &db).await;
    let mut cx = messages.begin();
    Pg::<false>::note(cx.transaction().await.unwrap(), "kept").await.unwrap();
    proxy.swallow_answer_to("; commit");
    if let Err(error) = cx.commit().await {
        assert_eq!(error.kind(), ErrorKind::CommitUnknown, "{error}");
    }
    assert_eq!(kept(&db).await, (1, 0));
    let mut cx = messages.begin();
    Pg::<false>::note(cx.transaction().await.unwrap(), "undone").await.unwrap();
    proxy.swallow("; commit");
    let error = cx.commit().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::CommitUnknown | ErrorKind::Aborted), "{error}");
    assert_eq!(kept(&db).await, (1, 0));
}

/// Nor can the server be asked: the error says "unknown", within its deadlines.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreachable_server_makes_a_commit_unknown() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let proxy = Proxy::start(db.address()).await;
    let messages = behind(&proxy, &db).await;
    let mut cx = messages.begin();
    cx.send(job()).unwrap();
    Pg::<false>::note(cx.transaction().await.unwrap(), "?").await.unwrap();
    proxy.swallow_answer_to("; commit");
    let committing = tokio::spawn(cx.commit());
    crate::support::eventually(Duration::from_secs(5), async || proxy.swallowed() == 1).await;
    proxy.down();
    let start = std::time::Instant::now();
    let error = committing.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommitUnknown, "{error}");
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!(kept(&db).await, (1, 1));
}

/// A flush without a transaction has no commit whose result could be queried. It must not report that nothing was kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_to_a_flush_alone_is_unknown() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let proxy = Proxy::start(db.address()).await;
    let error = lost_alone(&db, &proxy, behind(&proxy, &db).await).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::CommitUnknown | ErrorKind::Timeout), "{error}");
}

/// What a service makes of an error of the service that it wraps.
#[derive(Clone, Copy, Debug)]
enum Makes {
    Refusal,
    Nothing,
    /// An error of its own cleaning up, which can't reach the database either.
    Unreachable,
    AnotherTry,
}

struct MakesOfErrors {
    inner: Box<dyn MessageService<Postgres>>,
    makes: Makes,
}

#[async_trait]
impl MessageService<Postgres> for MakesOfErrors {
    wraps!(inner: Postgres);

    async fn flush(&mut self, into: &mut FlushInto<'_, Postgres>) -> jobwright::Result<Written> {
        let written = self.inner.flush(into).await;
        if written.is_ok() {
            return written;
        }
        match self.makes {
            Makes::Refusal => Err(Error::refused("it is not my fault")),
            Makes::Nothing => Ok(Written::nothing()),
            Makes::Unreachable => {
                let down = tokio_postgres::connect("host=127.0.0.1 port=1", tokio_postgres::NoTls).await;
                Err(Error::refused(down.err().expect("nothing listens there")))
            }
            Makes::AnotherTry => self.inner.flush(into).await,
        }
    }
}

/// A wrapping service may not claim that nothing was kept, or that all is well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_can_not_turn_an_unknown_commit_into_a_known_one() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    for makes in [Makes::Refusal, Makes::Nothing, Makes::Unreachable, Makes::AnotherTry] {
        let proxy = Proxy::start(db.address()).await;
        let messages = behind(&proxy, &db).await.wrap(move |inner| MakesOfErrors { inner, makes });
        let before = db.jobs().all().await.len();
        let error = lost_alone(&db, &proxy, messages).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CommitUnknown, "{makes:?}: {error}");
        assert_eq!(db.jobs().all().await.len(), before + 2, "{makes:?}: one before, and one whose answer was lost");
    }
}

/// Without a connection nothing was sent, so a service may keep its messages elsewhere, or say that they were refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flush_that_found_no_connection_is_known() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    for (makes, kind) in [(Makes::Refusal, Some(ErrorKind::Refused)), (Makes::Nothing, None)] {
        let proxy = Proxy::start(db.address()).await;
        let messages = behind(&proxy, &db).await.wrap(move |inner| MakesOfErrors { inner, makes });
        // The queues of the first job are known afterwards.
        messages.send(job()).await.unwrap();
        proxy.down();
        // Connections of the pool that were cut are found out by their next use. Then each call has to open one, and can't.
        let opens = async || {
            let before = proxy.refused();
            messages.admin().status().await.unwrap_err();
            proxy.refused() > before
        };
        eventually(PATIENCE, async || opens().await && opens().await).await;
        let before = db.jobs().all().await.len();
        let sent = messages.send(job()).await;
        assert_eq!(sent.as_ref().err().map(jobwright::Error::kind), kind, "{makes:?}: {sent:?}");
        assert_eq!(db.jobs().all().await.len(), before, "{makes:?}");
    }
}

/// Sends a job, and cuts the connection when its statement has arrived.
async fn lost_alone(db: &Pg<false>, proxy: &Proxy, messages: MessageServices) -> jobwright::Result<jobwright::JobId> {
    messages.send(job()).await.unwrap();
    let before = db.jobs().all().await.len();
    proxy.swallow_answer_to("a-kind-that-is-told-apart");
    let sending = tokio::spawn({
        let messages = messages.clone();
        async move { messages.send(jobwright::NewJob::json("a-kind-that-is-told-apart", &1)).await }
    });
    let jobs = db.jobs();
    crate::support::eventually(Duration::from_secs(5), async || jobs.all().await.len() > before).await;
    proxy.cut();
    sending.await.unwrap()
}
