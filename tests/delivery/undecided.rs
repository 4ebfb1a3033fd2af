//! Submissions whose id or unique key another transaction holds: nobody can say yet what becomes of them, and the others do not wait.

use std::time::Duration;

use jobwright::Store as _;
use jobwright::admin::JobState;
use jobwright::internal::engine::UnitOfWork as _;
use jobwright::{CommandExecutor, JobId, NewJob};
use lapin::BasicProperties;

use crate::delivery::amqp_client::{Client, headers};
use crate::delivery::site::{Site, noting};
use crate::support::environment::{PATIENCE, patient};
use crate::support::jobs::messages;
use crate::support::logs::Logs;
use crate::support::postgres::Pg;
use crate::support::{TestDb, eventually};

/// Far below the deadline of a call: what takes longer has waited for the lock.
const SOON: Duration = Duration::from_secs(15);
/// How many submissions come at once.
const COUNT: usize = 300;

struct Door {
    site: Site,
    executor: CommandExecutor,
    client: Client,
    logs: Logs,
}

impl Door {
    async fn open() -> Option<Self> {
        let logs = Logs::capture();
        let site = Site::<Pg<false>>::open().await?;
        let messages = site.messages().await;
        messages.broker().unwrap().apply(&[], &[]).await.unwrap();
        let executor = noting::<Pg<false>>(&messages, patient(), 10).await;
        let client = site.client().await;
        Some(Self { site, executor, client, logs })
    }

    async fn submit(&self, all: Vec<BasicProperties>) {
        let all = all.into_iter().map(|properties| (properties, b"{}".to_vec())).collect();
        self.client.publish_all(&self.site.names().submit(), all).await;
    }

    /// Asserts that this many are stored although others wait.
    async fn stored_soon(&self, count: usize) {
        eventually(SOON, async || self.executor.stats().submitted == count as u64).await;
    }

    /// Asserts that the log names a submission that waits, and who it waits for.
    async fn told(&self, id: JobId) {
        eventually(SOON, async || self.logs.contains(&format!("submission={id}"))).await;
        assert!(self.logs.contains("held_by=\"pid "), "it does not say who holds it");
    }

    /// Asserts that all were answered, and none was refused.
    async fn nothing_refused(&self) {
        let names = self.site.names();
        eventually(PATIENCE, async || self.client.waiting(&names.submit()).await == 0).await;
        assert_eq!((self.client.waiting(&names.rejected()).await, self.executor.stats().messages_refused), (0, 0));
    }
}

/// Returns a submission for a queue without executors.
pub(crate) fn plain(id: JobId) -> BasicProperties {
    with(id, &[])
}

fn keyed(id: JobId) -> BasicProperties {
    with(id, &[("uniqueKey", "k")])
}

fn with(id: JobId, more: &[(&'static str, &'static str)]) -> BasicProperties {
    BasicProperties::default()
        .with_message_id(id.to_string().as_str().into())
        .with_type("note".into())
        .with_headers(headers([("queue", "shelf")].into_iter().chain(more.iter().copied())))
}

/// Returns many submissions with this one among them.
fn many_with(one: BasicProperties) -> Vec<BasicProperties> {
    let mut all: Vec<_> = (1..COUNT).map(|_| plain(JobId::new())).collect();
    all.insert(COUNT / 2, one);
    all
}

/// The application ends its transaction, in one way or the other. Until then the key is neither free nor taken.
async fn of_an_open_transaction(is_kept: bool) {
    let Some(door) = Door::open().await else { return };
    let open = door.site.db.hold("select {schema}.send('note', '{}', queue => 'shelf', unique_key => 'k')").await;
    let (first, second) = (JobId::new(), JobId::new());
    door.submit(many_with(keyed(first))).await;
    door.stored_soon(COUNT - 1).await;
    door.told(first).await;
    // Another one with the key waits behind the first, and nothing waits behind that.
    door.submit(vec![keyed(second), plain(JobId::new())]).await;
    door.stored_soon(COUNT).await;
    assert_eq!(door.site.db.jobs().count(JobState::Waiting).await, COUNT);
    if is_kept {
        open.commit().await;
    } else {
        open.release().await;
    }
    for id in if is_kept { vec![first, second] } else { vec![second] } {
        // Another job has the key.
        eventually(PATIENCE, async || door.logs.contains(&format!("a submission came again id={id}"))).await;
    }
    door.nothing_refused().await;
    let jobs = door.site.db.jobs();
    assert_eq!(jobs.count(JobState::Waiting).await, COUNT + 1, "one job has the key");
    assert_eq!(jobs.state(first).await.is_some(), !is_kept, "the first that asked gets the key when it is free");
    assert_eq!(jobs.state(second).await, None);
    door.executor.shutdown(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_kept_in_the_end_holds_up_no_others() {
    of_an_open_transaction(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_free_in_the_end_holds_up_no_others() {
    of_an_open_transaction(false).await;
}

/// The same for an id that an application sends under.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_of_an_open_transaction_holds_up_no_others() {
    let Some(door) = Door::open().await else { return };
    let id = JobId::new();
    let mut open = door.site.db.store().begin().await.unwrap();
    let sent = NewJob::json("note", &1).id(id).queue("shelf");
    assert_eq!(open.insert(&messages([sent]), None).await.unwrap().rows, 1);
    door.submit(many_with(plain(id))).await;
    door.stored_soon(COUNT - 1).await;
    door.told(id).await;
    open.rollback().await.unwrap();
    let jobs = door.site.db.jobs();
    eventually(PATIENCE, async || jobs.count(JobState::Waiting).await == COUNT).await;
    door.nothing_refused().await;
    door.executor.shutdown(Duration::ZERO).await.unwrap();
}
