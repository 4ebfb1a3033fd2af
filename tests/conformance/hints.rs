//! `notify` and `listen`: unreliable wake-ups, where the store has them.

use std::time::Duration;

use jobwright::Store;
use jobwright::internal::engine::{Hint, HintStream};

use crate::support::TestDb;
use crate::support::jobs::job;

/// A store without hints says so at once, because its executors have to poll.
pub(crate) async fn a_store_says_whether_it_hears<T: TestDb>(db: &T) {
    let stream = db.jobs().listen().await.unwrap();
    assert_eq!(stream.is_some(), T::HEARS_HINTS);
}

/// Sending hints is always allowed, whatever their number and destination.
pub(crate) async fn hints_may_go_nowhere<T: TestDb>(db: &T) {
    let store = db.jobs();
    store.notify(&[]).await.unwrap();
    let many: Vec<_> = (0..100).map(|n| Hint::Queue(format!("queue {n}"))).collect();
    store.notify(&many).await.unwrap();
    store.notify(&[Hint::Rescan("ä \"'\\".to_owned()), Hint::Timer, Hint::Any]).await.unwrap();
}

/// Waits for the next hint. A store that can't say what changed reports any change.
async fn hears(stream: &mut Box<dyn HintStream>, sent: &Hint) {
    let heard = tokio::time::timeout(Duration::from_secs(10), stream.next()).await.expect("nothing was heard").unwrap();
    assert!(heard == *sent || heard == Hint::Any, "{heard:?} for {sent:?}");
}

pub(crate) async fn another_process_hears_them<T: TestDb>(db: &T) {
    let store = db.jobs();
    let Some(mut stream) = db.reopen().await.engine().listen().await.unwrap() else { return };
    let long = "q".repeat(100);
    let sent = [
        Hint::Queue("default".to_owned()),
        Hint::Rescan("ä \"'\\ queue".to_owned()),
        Hint::Queue(long.clone()),
        Hint::Rescan(long),
        Hint::Timer,
        Hint::Any,
    ];
    for hint in sent {
        // A hint follows a change; some stores notice the change itself.
        store.send(job()).await;
        store.notify(std::slice::from_ref(&hint)).await.unwrap();
        hears(&mut stream, &hint).await;
    }
}

/// Other installations on the same server are not woken.
pub(crate) async fn strangers_do_not_hear_them<T: TestDb>(db: &T) {
    let Some(mut stream) = db.jobs().listen().await.unwrap() else { return };
    let stranger = T::create().await.unwrap();
    stranger.jobs().notify(&[Hint::Queue("stranger".to_owned())]).await.unwrap();
    // Our own hint is sent after the other one, which would therefore have come first.
    let ours = Hint::Queue("ours".to_owned());
    db.jobs().send(job()).await;
    db.jobs().notify(std::slice::from_ref(&ours)).await.unwrap();
    hears(&mut stream, &ours).await;
}
