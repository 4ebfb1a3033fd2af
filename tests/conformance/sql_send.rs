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
async fn an_expired_job_never_starts() {
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
    // It repeats neither a long name nor what a terminal interprets.
    for name in ["tenant", "exclusive_group", "limit_key", "unique_key"] {
        let error = place.send(&format!("{name} => E'\\x1b[2J' || repeat('x', 6000)"), &[]).await.unwrap_err();
        assert!(error.len() < 500 && !error.contains('\x1b'), "{name}: {error:?}");
    }
    assert!(place.db.jobs().all().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_are_checked_as_the_library_checks_them() {
    let Some(place) = Place::create().await else { return };
    let many = |count| format!("(select jsonb_object_agg('h' || g, 'v') from generate_series(1, {count}) g)");
    let one = |name: &str, value: &str| format!("jsonb_build_object({name}, {value})");
    let cases = [
        (many(64), None),
        (many(65), Some("more than 64 headers")),
        (many(1_000_000), Some("more than 64 headers")),
        (one("'h'", "repeat('v', 4096)"), None),
        (one("'h'", "repeat('v', 4097)"), Some("4097 bytes")),
        (one("'h'", "repeat('ä', 2049)"), Some("4098 bytes")),
        (one("repeat('n', 100)", "'v'"), None),
        (one("repeat('n', 101)", "'v'"), Some("longer than 100 bytes")),
        (one("''", "'v'"), Some("is empty")),
        (one("' n'", "'v'"), Some("outer blanks")),
        (one("E'a\\nb'", "'v'"), Some("control characters")),
        (one("'h'", "5"), Some("values are strings")),
        (one("'h'", "null::text"), Some("values are strings")),
        ("'[]'".to_owned(), Some("values are strings")),
        ("'{}'".to_owned(), None),
    ];
    for (headers, refusal) in cases {
        let sent = place.send(&format!("headers => {headers}"), &[]).await;
        match (sent, refusal) {
            (Ok(_), None) => {}
            (Err(error), Some(why)) if error.contains(why) && error.starts_with("jobwright.send: ") => {}
            (sent, refusal) => panic!("{headers}: {sent:?}, and not {refusal:?}"),
        }
    }
    // What does not come through the function is bounded, too.
    let client = &place.client;
    let insert = format!(
        "insert into job (id, kind, queue, rank, max_attempts, payload, headers) select gen_random_uuid(), 'k', 'q', 0, 1, '1', {}",
        many(50_000)
    );
    let refused = client.execute(&insert, &[]).await.unwrap_err();
    assert_eq!(refused.code(), Some(&tokio_postgres::error::SqlState::CHECK_VIOLATION), "{refused}");
}
