//! The corpus again and again, through every way that reaches a worker.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jobwright::{JobId, NewJob};

use super::good::Site;
use crate::delivery::amqp_client::headers;
use crate::hostile_input::by_database::{by_sql, new_job};
use crate::hostile_input::corpus::{Say, corpus};
use crate::hostile_input::producer::{Post, Told};

/// The jobs that must have left a trace, by the way that each came.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) rounds: usize,
    pub(super) said: u64,
    pub(super) refused: u64,
    /// Submissions that the broker accepted: they are stored, or rejected.
    pub(super) submitted: BTreeMap<JobId, String>,
    /// The same message again, with a name instead of an id: one job, or none.
    pub(super) named: u64,
    /// Jobs that the database accepted.
    pub(super) stored: BTreeMap<JobId, String>,
    pub(super) reports: u64,
    /// The number of jobs handed out, which have to be gone.
    pub(super) handed: u64,
}

pub(super) type Shared = Arc<Mutex<Book>>;

/// Sends it as submissions, through SQL and through the library.
pub(super) async fn produce(site: Arc<Site>, book: Shared, end: Instant) {
    let messages = site.messages().await;
    let database = site.db.client().await;
    let (mut post, submit, all) = (Post::at(&site.url), site.names().submit(), corpus());
    while Instant::now() < end {
        for nasty in &all {
            if Instant::now() > end {
                return;
            }
            let id = JobId::new();
            let told = post.submit(&submit, nasty, &id.to_string(), id).await;
            let named = nasty.said(&Say::Id).is_some();
            {
                let mut book = book.lock().unwrap();
                match told {
                    Told::Taken if named => book.named += 1,
                    Told::Taken => _ = book.submitted.insert(id, nasty.name.clone()),
                    Told::Refused(_) => book.refused += 1,
                    Told::Unsaid => {}
                }
                book.said += 1;
            }
            if nasty.levels > 0 || named {
                continue;
            }
            let by_sql = by_sql(&database, site.db.schema(), nasty).await.map(Result::ok);
            let by_library = match new_job(nasty) {
                Ok(None) => None,
                Err(_) => Some(None),
                Ok(Some(job)) => Some(messages.send(job).await.ok()),
            };
            let mut book = book.lock().unwrap();
            for told in [by_sql, by_library].into_iter().flatten() {
                book.said += 1;
                match told {
                    Some(id) => _ = book.stored.insert(id, nasty.name.clone()),
                    None => book.refused += 1,
                }
            }
        }
        book.lock().unwrap().rounds += 1;
    }
}

/// Sends it as reports on jobs that were handed out, each with a good one behind it.
pub(super) async fn report(site: Arc<Site>, book: Shared, end: Instant) {
    let messages = site.messages().await;
    let client = site.client().await;
    let (mut post, reply) = (Post::at(&site.url), site.names().reply());
    let mut tap = client.tap(&site.names().external("paint"), 10).await;
    let all = corpus();
    'all: loop {
        for nasty in &all {
            if Instant::now() > end {
                break 'all;
            }
            messages.send(NewJob::json("paint", &1).queue("paint").max_attempts(1)).await.unwrap();
            let handed = tap.next().await;
            let told = post.report(&reply, nasty, &handed).await;
            let (id, version) = (handed.job().to_string(), handed.version().to_string());
            let token = handed.header("reportToken").unwrap();
            let about = [("jobId", id.as_str()), ("version", &version), ("reportToken", &token), ("status", "done")];
            let good = headers(about);
            let good = lapin::BasicProperties::default().with_headers(good);
            assert!(client.publish("", &reply, good, b"").await);
            tap.ack(&handed).await;
            let mut book = book.lock().unwrap();
            book.handed += 1;
            book.said += 1;
            book.reports += 1 + u64::from(told == Told::Taken);
            book.refused += u64::from(matches!(told, Told::Refused(_)));
        }
    }
    tap.close().await;
}

/// Takes rejected messages out of the queue, and records them with their reasons.
pub(super) async fn collect(site: Arc<Site>, queue: String, aside: Arc<Mutex<Vec<(String, String)>>>) {
    let client = site.client().await;
    let mut tap = client.tap(&queue, 50).await;
    loop {
        let Some(message) = tap.next_within(Duration::from_secs(3600)).await else { return };
        let reason = message.header("jobwright-reason").or_else(|| message.header("x-first-death-reason"));
        let properties = &message.properties;
        let mark = properties.app_id().as_ref().or(properties.message_id().as_ref()).unwrap().to_string();
        aside.lock().unwrap().push((mark, reason.unwrap_or_default()));
        tap.ack(&message).await;
    }
}
