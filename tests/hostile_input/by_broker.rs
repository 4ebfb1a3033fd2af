//! The corpus through the broker: as submissions, and as reports of external workers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jobwright::admin::JobState;
use jobwright::{CommandExecutor, ExternalQueue, JobId, NewJob};
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};

use crate::delivery::amqp_client::headers;
use crate::delivery::site::{Site, brisk, note, noting};
use crate::hostile_input::corpus::{Fate, Nasty, corpus};
use crate::hostile_input::producer::{Post, Told};
use crate::support::environment::{PATIENCE, World as _};
use crate::support::postgres::Pg;
use crate::support::{TestDb as _, eventually};

/// Records an entry whose result differs from the expected one.
pub(crate) fn check(nasty: &Nasty, stored: bool, wrong: &mut Vec<String>) {
    let fits = match nasty.fate {
        Fate::Stored => stored,
        Fate::Refused => !stored,
        Fate::Either => true,
    };
    if !fits {
        wrong.push(format!("{}: {}", nasty.name, if stored { "stored" } else { "refused" }));
    }
}

/// Returns the number of a message's entry; its headers may be lost because they were too large.
fn number(properties: &BasicProperties, told: &[(JobId, Told)]) -> usize {
    if let Some(number) = properties.app_id() {
        return number.as_str().parse().unwrap();
    }
    let id = properties.message_id().as_ref().unwrap().as_str();
    told.iter().position(|(entry, _)| entry.to_string() == id).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submissions_are_stored_or_refused_and_good_ones_behind_them_run() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    let messages = site.messages().await;
    let executor = noting::<Pg<false>>(&messages, brisk(), 10).await;
    let client = site.client().await;
    let (submit, rejected) = (site.names().submit(), site.names().rejected());
    eventually(PATIENCE, async || client.depth(&submit).await.is_some()).await;

    let (all, mut post) = (corpus(), Post::at(&site.url));
    let (mut told, mut good) = (Vec::new(), Vec::new());
    for (number, nasty) in all.iter().enumerate() {
        let id = JobId::new();
        told.push((id, post.submit(&submit, nasty, &number.to_string(), id).await));
        good.push(JobId::new());
        let behind = BasicProperties::default().with_type("note".into());
        let behind = behind.with_message_id(good[number].to_string().into());
        assert!(client.publish("", &submit, behind, b"1").await);
    }
    let taken = told.iter().filter(|(_, told)| *told == Told::Taken).count();
    assert!(taken > 150, "{taken} of {}", all.len());

    // Each one is a job, was one, or is among the rejected messages.
    let jobs = site.db.jobs();
    let stored = async || jobs.all().await.len() + site.db.ledger().await.len();
    let put_aside = async || client.waiting(&rejected).await as usize;
    eventually(PATIENCE, async || stored().await + put_aside().await >= taken + good.len()).await;
    eventually(PATIENCE, async || {
        jobs.all()
            .await
            .iter()
            .all(|job| job.kind != "note" || job.queue != "default" || job.state != JobState::Waiting)
    })
    .await;
    assert_eq!(stored().await + put_aside().await, taken + good.len(), "some are there twice, or nowhere");
    assert_eq!(client.waiting(&submit).await, 0);

    let mut reasons = BTreeMap::new();
    while let Some(message) = client.get(&rejected).await {
        let reason = message.header("jobwright-reason").or_else(|| message.header("x-first-death-reason"));
        assert!(message.header("jobwright-error").is_none_or(|error| !error.is_empty()));
        let number = number(&message.properties, &told);
        assert!(reasons.insert(number, reason.expect("it says why")).is_none());
    }
    let ran: BTreeSet<String> = site.db.ledger().await.into_keys().collect();
    let missing: Vec<_> = good.iter().filter(|id| !ran.contains(&id.to_string())).collect();
    assert!(missing.is_empty(), "good ones that did not run: {missing:?}");
    let mut wrong = Vec::new();
    for (number, nasty) in all.iter().enumerate() {
        let (id, told) = &told[number];
        if *told == Told::Unsaid {
            continue;
        }
        let there = *told == Told::Taken && !reasons.contains_key(&number);
        check(nasty, there, &mut wrong);
        if !there || nasty.said(&crate::hostile_input::corpus::Say::Id).is_some() {
            continue;
        }
        if ran.contains(&id.to_string()) {
            continue;
        }
        let detail = jobs.detail(*id).await;
        match detail.summary.state {
            JobState::Dead => assert!(!detail.dead.unwrap().1.is_empty(), "{} says why", nasty.name),
            _ => assert!(nasty.rests(), "{} neither ran nor is a dead letter", nasty.name),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}\n{reasons:?}");
    assert_eq!(executor.stats().leases_lost, 0);
}

/// Returns reports that are wrong in ways only a report can be: in the job they name and the outcome.
fn odd_reports(jobs: &[JobId; 2]) -> Vec<(BasicProperties, Vec<u8>)> {
    let [waiting, gone] = jobs.map(|id| id.to_string());
    let nobody = JobId::new().to_string();
    let mut all = Vec::new();
    for id in [&waiting, &gone, &nobody] {
        for version in ["0", "-1", "1", "9007199254740993", "9223372036854775807", "9223372036854775808", "1.0", ""] {
            for status in ["done", "failed", "extend", "DONE", ""] {
                all.push(headers([("jobId", id.as_str()), ("version", version), ("status", status)]));
            }
        }
    }
    all.push(headers([]));
    let mut typed = headers([("jobId", nobody.as_str()), ("status", "done")]);
    typed.insert("version".into(), AMQPValue::FieldTable(FieldTable::default()));
    all.push(typed);
    all.into_iter().map(|table| (BasicProperties::default().with_headers(table), b"{".to_vec())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_are_taken_or_refused_and_good_ones_behind_them_count() {
    let Some(site) = Site::<Pg<false>>::open().await else { return };
    site.uses("paint");
    let messages = site.messages().await;
    messages.broker().unwrap().apply(&[], &["paint".to_owned()]).await.unwrap();
    let paint = ExternalQueue::new("paint").lease(Duration::from_secs(600));
    let executor: CommandExecutor =
        CommandExecutor::builder(messages.clone()).config(brisk()).external_queue(paint).start().await.unwrap();
    let client = site.client().await;
    let (reply, rejected) = (site.names().reply(), site.names().rejected_reports());
    let mut tap = client.tap(&site.names().external("paint"), 10).await;

    let (all, mut post) = (corpus(), Post::at(&site.url));
    let (mut published, mut answers) = (0, Vec::new());
    let answer = client.queue().await;
    for nasty in &all {
        let job = NewJob::json("paint", &1).queue("paint").max_attempts(1).header("replyTo", answer.as_str());
        messages.send(job).await.unwrap();
        let handed = tap.next().await;
        let job = handed.job();
        let told = post.report(&reply, nasty, &handed).await;
        published += u64::from(told == Told::Taken);
        answers.push((job, told));
        // Behind it, a good one for the same job.
        let (id, version) = (job.to_string(), handed.version().to_string());
        let token = handed.header("reportToken").unwrap();
        let about = [("jobId", id.as_str()), ("version", &version), ("reportToken", &token), ("status", "done")];
        let good = headers(about);
        assert!(client.publish("", &reply, BasicProperties::default().with_headers(good), b"").await);
        published += 1;
        tap.ack(&handed).await;
    }
    let rest = messages.send(note().queue("paint").delay(crate::support::jobs::LATER)).await.unwrap();
    for (properties, body) in odd_reports(&[rest, answers[0].0]) {
        assert!(client.publish("", &reply, properties, &body).await);
        published += 1;
    }

    let accounted = async || {
        let stats = executor.stats();
        stats.reported + stats.reports_refused + stats.messages_refused
    };
    let jobs = site.db.jobs();
    eventually(PATIENCE, async || client.waiting(&reply).await == 0 && jobs.count(JobState::External).await == 0).await;
    eventually(PATIENCE, async || accounted().await >= published).await;
    let stats = executor.stats();
    assert_eq!(accounted().await, published, "{stats:?}");
    eventually(PATIENCE, async || u64::from(client.waiting(&rejected).await) >= stats.messages_refused).await;
    let mut aside = 0;
    while let Some(message) = client.get(&rejected).await {
        assert!(!message.header("jobwright-reason").unwrap().is_empty());
        aside += 1;
    }
    assert_eq!(aside, stats.messages_refused);
    // Each job has ended, failed for good with a reason, or was not handed out.
    eventually(PATIENCE, async || jobs.all().await.iter().all(|job| job.state == JobState::Dead || job.id == rest))
        .await;
    for job in jobs.all().await {
        if job.id != rest {
            assert!(!jobs.detail(job.id).await.dead.unwrap().1.is_empty());
        }
    }
    assert_eq!(jobs.state(rest).await, Some(JobState::Timer));
}
