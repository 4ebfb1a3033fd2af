//! With a program's own codec, a test still sees plain content.

use jobwright::admin::{JobFilter, Page};
use jobwright::codec::{Seal, SealKey};
use jobwright::testing::{RunOutcome, TestDatabase, assert_sent};
use jobwright::{Job, JobError, NewJob, Outcome};

use crate::test_kit::kit::Kit;

async fn sealed<S: Kit>() -> Option<TestDatabase<S>> {
    let key: [u8; 32] = std::array::from_fn(|position| position as u8);
    Some(S::database().await?.with_codec(Seal::new(SealKey::new("k", key).unwrap())))
}

/// Stored content is sealed; sent content, a handler's input and errors are shown in plain.
async fn a_test_sees_plain_content<S: Kit>() {
    let Some(db) = sealed::<S>().await else { return };
    let mut cx = db.messages().begin();
    cx.send(NewJob::json("pay", "4111")).unwrap();
    assert_sent(&cx).json("4111").once();
    cx.commit().await.unwrap();
    assert_sent(&db.sent().await.unwrap()).kind("pay").json("4111").once();
    let stored = db.messages().engine().list(&JobFilter::default(), &Page::default()).await.unwrap();
    let stored = db.messages().engine().show(stored[0].id).await.unwrap().unwrap();
    assert_eq!(stored.payload.content_type(), "application/jose");

    let mut runner = db
        .runner(|executor| {
            executor.handle("pay", |job: Job| async move {
                let card: String = job.payload.decode()?;
                if card == "4111" { Err(JobError::fatal("refused: 4111")) } else { Ok(Outcome::Done) }
            })
        })
        .await
        .unwrap();
    let summary = runner.drain().await.unwrap();
    let ran = &summary.ran[0];
    assert_eq!(ran.job.payload.decode::<String>().unwrap(), "4111");
    assert_eq!(ran.end, RunOutcome::Dead("refused: 4111".to_owned()));
}

#[tokio::test]
async fn a_test_sees_plain_content_on_postgres() {
    Box::pin(a_test_sees_plain_content::<jobwright::Postgres>()).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_test_sees_plain_content_on_sqlite() {
    a_test_sees_plain_content::<jobwright::Sqlite>().await;
}
