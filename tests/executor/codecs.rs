//! Encoded content: handlers, results and operators see plain content, and the database stores it encoded.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobwright::admin::PutOutcome;
use jobwright::admin::{JobFilter, JobState};
use jobwright::codec::{Gzip, Seal, SealKey};
use jobwright::{
    Awaited, BatchOptions, CommandExecutor, JobError, JobId, KindOptions, MessageServices, NewJob, NewSchedule,
    Outcome, RetryPolicy, Schedule, Unique,
};

use crate::support::environment::{PATIENCE, World, at_once, quick};

const SECRET: &str = "4111-1111-1111-1111";

fn key(id: &str) -> SealKey {
    let mut bytes = [7; 32];
    bytes[..id.len()].copy_from_slice(id.as_bytes());
    SealKey::new(id, bytes).unwrap()
}

fn once() -> KindOptions {
    KindOptions::default().retry(RetryPolicy::Fixed(Duration::ZERO))
}

/// Returns a job's content as a reader of the tables sees it.
async fn stored<W: World>(db: &W, id: JobId) -> String {
    let detail = db.jobs().show(id).await.unwrap().unwrap();
    let payload = String::from_utf8_lossy(detail.payload.as_bytes()).into_owned();
    format!("{payload} {:?} {:?} {:?}", detail.summary, detail.errors, detail.dead)
}

pub(crate) async fn nothing_of_a_sealed_job_is_stored_in_plain<W: World>(db: &W) {
    let messages = db.messages().await.with_codec(Seal::new(key("one")));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let seeing = seen.clone();
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .kind_options("pay", at_once())
        .handle_with("pay", move |cx| {
            let seen = seeing.clone();
            Box::pin(async move {
                let card: String = cx.job().payload.decode().map_err(|e| JobError::new(e.to_string()))?;
                let from: Option<String> = cx.checkpoint().await?;
                seen.lock().unwrap().push((cx.job().attempt, card.clone(), from.clone()));
                cx.save_checkpoint(&card).await?;
                match from {
                    None => Err(JobError::new(format!("the card {card} was refused")).detail(card)),
                    Some(_) => {
                        cx.result(&card)?;
                        Ok(Outcome::Done)
                    }
                }
            })
        })
        .kind_options("fail", at_once())
        .handle_with("fail", |cx| {
            Box::pin(
                async move { Err(JobError::fatal(format!("no {}", cx.job().payload.as_str().unwrap_or_default()))) },
            )
        })
        .start()
        .await
        .unwrap();

    let id = messages.send(NewJob::json("pay", SECRET)).await.unwrap();
    let awaited = messages.wait_for_result(id, PATIENCE).await.unwrap();
    let Awaited::Result(result) = awaited else { panic!("{awaited:?}") };
    assert_eq!(result.payload.decode::<String>().unwrap(), SECRET);
    let expected = [(1, SECRET.to_owned(), None), (2, SECRET.to_owned(), Some(SECRET.to_owned()))];
    assert_eq!(*seen.lock().unwrap(), expected);
    let kept = db.jobs().result(id).await.unwrap().unwrap();
    assert!(!kept.payload.as_str().unwrap().contains(SECRET), "{:?}", kept.payload.as_str());
    assert_eq!(messages.admin().result(id).await.unwrap().unwrap().payload.decode::<String>().unwrap(), SECRET);

    let id = messages.send(NewJob::json("fail", SECRET)).await.unwrap();
    db.reaches(id, JobState::Dead).await;
    let text = stored(db, id).await;
    assert!(!text.contains(SECRET), "{text}");
    let shown = messages.admin().show(id).await.unwrap().unwrap();
    assert_eq!(shown.payload.decode::<String>().unwrap(), SECRET);
    let (_, reason) = shown.dead.unwrap();
    assert!(reason.contains(SECRET) && shown.errors[0].error.contains(SECRET), "{reason}");
    executor.shutdown(PATIENCE).await.unwrap();
}

/// Without a key they can't be distinguished, and should not make a list of thousands of groups.
pub(crate) async fn dead_letters_with_sealed_errors_are_one_group<W: World>(db: &W) {
    let messages = db.messages().await.with_codec(Seal::new(key("one")));
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .handle("pay", |_| async { Err(JobError::fatal(format!("the card {SECRET} was refused"))) })
        .start()
        .await
        .unwrap();
    for _ in 0..2 {
        let id = messages.send(NewJob::json("pay", SECRET)).await.unwrap();
        db.reaches(id, JobState::Dead).await;
    }
    let found = messages.admin().dead_letter_groups(&JobFilter::default(), 1000, 10).await.unwrap();
    let [group] = found.groups.as_slice() else { panic!("{found:?}") };
    assert_eq!((group.count, group.error.starts_with("encoded")), (2, true), "{group:?}");
    executor.shutdown(PATIENCE).await.unwrap();
}

/// A node that does not have the key yet must not cost the job.
pub(crate) async fn a_key_that_is_missing_costs_an_attempt_and_no_job<W: World>(db: &W) {
    let new = db.messages().await.with_codec(Seal::new(key("new")));
    let id = new.send(NewJob::json("pay", SECRET).max_attempts(50)).await.unwrap();
    let handled = |messages: MessageServices<W::Store>| {
        CommandExecutor::builder(messages)
            .config(quick())
            .kind_options("pay", once().retry(RetryPolicy::Fixed(Duration::from_millis(50))))
            .handle_with("pay", |cx| {
                Box::pin(async move {
                    let card = cx.job().payload.as_str().unwrap_or_default().to_owned();
                    W::note(cx.transaction().await?, &card).await?;
                    Ok(Outcome::Done)
                })
            })
            .start()
    };
    let old = db.messages().await.with_codec(Seal::new(key("old")));
    let behind = handled(old.clone()).await.unwrap();
    let jobs = db.jobs();
    crate::support::eventually(PATIENCE, async || {
        jobs.show(id).await.unwrap().is_some_and(|job| job.summary.attempt >= 1 && !job.errors.is_empty())
    })
    .await;
    let shown = old.admin().show(id).await.unwrap().unwrap();
    assert!(shown.errors[0].error.contains("sealed with the key \"new\"; here there are old"), "{:?}", shown.errors);
    assert!(db.ledger().await.is_empty(), "its handler did not see what it can't read");
    behind.shutdown(PATIENCE).await.unwrap();

    let both = db.messages().await.with_codec(Seal::new(key("old")).also_opens(key("new")));
    let executor = handled(both).await.unwrap();
    db.gone(id).await;
    assert_eq!(db.ledger().await.get(&format!("{SECRET:?}")), Some(&1));
    executor.shutdown(PATIENCE).await.unwrap();
}

pub(crate) async fn a_schedule_that_is_put_again_is_unchanged_until_the_key_changes<W: World>(db: &W) {
    let services = async |seal: Seal| db.messages().await.with_codec(seal);
    let report = || NewSchedule::new("report", Schedule::new("PT1H").unwrap(), NewJob::json("report", SECRET));
    let old = services(Seal::new(key("old"))).await;
    assert_eq!(old.schedules().put(report()).await.unwrap().outcome, PutOutcome::Created);
    assert_eq!(old.schedules().put(report()).await.unwrap().outcome, PutOutcome::Unchanged);
    let new = services(Seal::new(key("new")).also_opens(key("old"))).await;
    assert_eq!(new.schedules().put(report()).await.unwrap().outcome, PutOutcome::Changed);
    let put = new.schedules().put(report()).await.unwrap();
    assert_eq!(put.outcome, PutOutcome::Unchanged);
    assert_eq!(put.schedule.spec.message.payload.decode::<String>().unwrap(), SECRET);
    let id = new.schedules().run("report").await.unwrap();
    assert!(!stored(db, id).await.contains(SECRET));
}

/// A unique job is compared by its content, not by its encoding.
pub(crate) async fn unique_jobs_are_compared_before_they_are_encoded<W: World>(db: &W) {
    let messages = db.messages().await.with_codec(Seal::new(key("one")));
    let job = || NewJob::json("pay", SECRET).unique(Unique::payload());
    let first = messages.send(job()).await.unwrap();
    assert_eq!(messages.send(job()).await.unwrap(), first);
}

pub(crate) async fn batches_see_plain_payloads_and_lose_only_unreadable_ones<W: World>(db: &W) {
    let good = db.messages().await.with_codec(Gzip::new().min_size(1)).with_codec(Seal::new(key("one")));
    let bad = db.messages().await.with_codec(Seal::new(key("other")));
    let plain = db.messages().await;
    let long = "x".repeat(1000);
    let sent =
        [good.send(NewJob::json("sum", &long)).await.unwrap(), plain.send(NewJob::json("sum", &long)).await.unwrap()];
    let unreadable = bad.send(NewJob::json("sum", &long).max_attempts(1)).await.unwrap();
    let stored = db.jobs().show(sent[0]).await.unwrap().unwrap();
    assert!(stored.payload.as_bytes().len() < 600, "compressed, then sealed: {:?}", stored.payload);
    let executor = CommandExecutor::builder(good)
        .config(quick())
        .handle_batch("sum", BatchOptions::new(10), move |batch| {
            let long = long.clone();
            Box::pin(async move {
                let ids: Vec<_> = batch.jobs().iter().map(|job| job.id).collect();
                for job in batch.jobs() {
                    assert_eq!(job.payload.decode::<String>().unwrap(), long);
                }
                for id in &ids {
                    W::note(batch.transaction().await?, &id.to_string()).await?;
                }
                Ok(batch.all_done())
            })
        })
        .start()
        .await
        .unwrap();
    db.reaches(unreadable, JobState::Dead).await;
    for id in sent {
        db.gone(id).await;
    }
    db.each_once(&sent).await;
    executor.shutdown(PATIENCE).await.unwrap();
}
