//! Nodes that stop.

use std::time::Duration;

use jobwright::{CommandExecutor, NewJob, Outcome};

use crate::support::environment::{Gate, World, lease};

/// In those engines the end of an exclusive job hands the next one of its instance to the same thread, although the node is stopping. Here the next
/// one waits for another node.
pub(crate) async fn a_stop_starts_no_other_job_of_its_group<W: World>(db: &W) {
    let gate = Gate::closed();
    let start = async || {
        let door = gate.clone();
        CommandExecutor::builder(db.messages().await)
            .config(lease(60).poll_interval(Duration::from_millis(100)))
            .handle_with("wait", move |cx| {
                let door = door.clone();
                Box::pin(async move {
                    door.pass().await;
                    let line = cx.job().id.to_string();
                    W::note(cx.transaction().await?, &line).await?;
                    Ok(Outcome::Done)
                })
            })
            .start()
            .await
            .unwrap()
    };
    let executor = start().await;
    let messages = db.messages().await;
    let mut cx = messages.begin();
    let ids: Vec<_> = (0..5).map(|n| cx.send(NewJob::json("wait", &n).exclusive("instance-1")).unwrap()).collect();
    cx.commit().await.unwrap();
    gate.waiting(1).await;
    // The first poll begins the shutdown; the job ends after that.
    let mut stopping = std::pin::pin!(executor.shutdown(Duration::from_secs(60)));
    assert!(futures_util::poll!(stopping.as_mut()).is_pending());
    gate.open();
    let stats = stopping.await.unwrap();
    assert_eq!((stats.done, stats.released, stats.in_flight), (1, 0, 0));
    let left = db.jobs().all().await;
    assert_eq!(left.len(), 4);
    assert!(left.iter().all(|job| job.attempt == 0 && job.owner.is_none()), "{left:?}");
    let next = start().await;
    db.drained().await;
    db.each_once(&ids).await;
    next.shutdown(Duration::ZERO).await.unwrap();
}
