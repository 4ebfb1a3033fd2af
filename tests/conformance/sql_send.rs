//! What PostgreSQL's function `send` accepts; the modules of groups and unique keys cover the rest.

use jobwright::store::JobState;
use jobwright::{JobId, JobOptions, NewJob};
use tokio_postgres::types::ToSql;

use crate::support::TestDb;
use crate::support::jobs::message;
use crate::support::postgres::Pg;

struct Place {
    db: Pg<false>,
    client: tokio_postgres::Client,
}

impl Place {
    async fn create() -> Option<Self> {
        let db = Pg::<false>::create().await?;
        let client = db.client().await;
        Some(Self { db, client })
    }

    /// Returns the id, or the server's error message.
    async fn send(&self, arguments: &str, values: &[&(dyn ToSql + Sync)]) -> Result<JobId, String> {
        let sql = format!("select {}.send('kind', '1', {arguments})", self.db.schema());
        let said = |error: tokio_postgres::Error| error.as_db_error().unwrap().message().to_owned();
        let row = self.client.query_one(&sql, values).await.map_err(said)?;
        Ok(JobId::from(row.get::<_, uuid::Uuid>(0)))
    }

    async fn options(&self, id: JobId) -> JobOptions {
        self.db.jobs().detail(id).await.options
    }
}

/// The function stores the same options as the library.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_to_live_tenant_and_limit_key() {
    let Some(place) = Place::create().await else { return };
    let plain = place.send("'default', 0, now()", &[]).await.unwrap();
    assert_eq!(place.options(plain).await, JobOptions::default(), "by position, as ever");
    let all = "ttl => interval '90 minutes', tenant => $1, limit_key => $2, exclusive_group => 'g'";
    let id = place.send(all, &[&"acme", &"printer"]).await.unwrap();
    let options = place.options(id).await;
    let ninety = std::time::Duration::from_secs(90 * 60);
    let asked = NewJob::json("kind", &1).ttl(ninety).tenant("acme").limit_key("printer").exclusive("g");
    let mut asked_for = options.clone();
    asked_for.expires = None;
    assert_eq!(asked_for, message(asked).options);
    let created = place.db.jobs().detail(id).await.summary.created_at;
    assert_eq!(options.expires, Some(created.as_microsecond() + 90 * 60 * 1_000_000));
    let later = place.send("ttl => interval '1 hour', due_at => now() + interval '1 minute'", &[]).await.unwrap();
    assert_eq!(place.db.jobs().state(later).await, Some(JobState::Timer));
    assert!(place.options(later).await.expires.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_expires_never_starts() {
    let Some(place) = Place::create().await else { return };
    let id = place.send("ttl => interval '1 millisecond'", &[]).await.unwrap();
    let store = place.db.jobs();
    crate::support::eventually(std::time::Duration::from_secs(5), async || {
        store.expire_jobs(10).await.unwrap();
        store.state(id).await == Some(JobState::Dead)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_is_refused() {
    let Some(place) = Place::create().await else { return };
    for (arguments, why) in [
        ("ttl => interval '0'", "use 1 millisecond to 100 years"),
        ("ttl => interval '-1 day'", "use 1 millisecond to 100 years"),
        ("ttl => interval '170000000 years'", "use 1 millisecond to 100 years"),
        ("ttl => interval '1 hour', due_at => now() + interval '2 hours'", "would never run"),
        ("tenant => ''", "the tenant"),
        ("tenant => repeat('x', 201)", "longer than 200 bytes"),
        ("limit_key => ' x'", "outer blanks"),
        ("limit_key => E'a\\nb'", "control characters"),
    ] {
        let error = place.send(arguments, &[]).await.unwrap_err();
        assert!(error.contains(why), "{arguments}: {error}");
    }
    assert!(place.db.jobs().all().await.is_empty());
}
