//! Jobs with a time to live: an executor expires them in time, and runs those that it claimed before.

use std::time::Duration;

use jobwright::admin::JobState;
use jobwright::{CommandExecutor, NewJob, Outcome};

use crate::support::environment::{Gate, World, patient};

/// Polling would take an hour: the send itself notifies that there is something to expire.
pub(crate) async fn an_unclaimed_job_expires_in_time<W: World>(db: &W) {
    let messages = db.messages().await;
    let executor = CommandExecutor::builder(messages.clone())
        .config(patient())
        .handle("known", |_| async { Ok(Outcome::Done) })
        .start()
        .await
        .unwrap();
    let life = Duration::from_millis(300);
    let waiting = messages.send(NewJob::json("unknown", &()).ttl(life)).await.unwrap();
    let delayed = messages.send(NewJob::json("known", &()).ttl(life).delay(life / 2).queue("nobodys")).await.unwrap();
    for id in [waiting, delayed] {
        db.reaches(id, JobState::Dead).await;
        let detail = db.jobs().detail(id).await;
        assert_eq!(detail.dead.map(|(_, reason)| reason).as_deref(), Some("expired"));
    }
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// The time to live ends while the job runs, and it completes nevertheless.
pub(crate) async fn a_job_claimed_in_time_runs_to_its_end<W: World>(db: &W) {
    let messages = db.messages().await;
    let (begun, gate) = (Gate::closed(), Gate::closed());
    let (begins, waits) = (begun.clone(), gate.clone());
    let executor = CommandExecutor::builder(messages.clone())
        .config(patient())
        .handle("slow", move |_| {
            let (begins, waits) = (begins.clone(), waits.clone());
            async move {
                begins.open();
                waits.pass().await;
                Ok(Outcome::Done)
            }
        })
        .start()
        .await
        .unwrap();
    let life = Duration::from_secs(2);
    // Handed over at the commit, so it begins at once.
    let slow = messages.send(NewJob::json("slow", &()).ttl(life)).await.unwrap();
    begun.pass().await;
    let witness = messages.send(NewJob::json("unknown", &()).ttl(life)).await.unwrap();
    db.reaches(witness, JobState::Dead).await;
    assert_eq!(db.jobs().state(slow).await, Some(JobState::Running));
    gate.open();
    db.gone(slow).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}
