//! What PostgreSQL's function `send` accepts; the modules of groups and unique keys cover the rest.

use std::time::Duration;

use jobwright::admin::{JobFilter, JobState};
use jobwright::internal::engine::Verdict;
use jobwright::{JobId, JobOptions, NewJob, Payload, RetryPolicy, Unique};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use crate::support::jobs::{LATER, hand_out_number, job, message};
use crate::support::postgres::Pg;
use crate::support::{Jobs, TestDb, eventually};

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
    let ninety = Duration::from_secs(90 * 60);
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
    eventually(Duration::from_secs(5), async || {
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
        ("ordered => true", "only with an exclusive_group"),
        ("ordered => null, exclusive_group => 'g'", "ordered is null"),
        ("retry => 'soon'", "use exponential(2s, 2, 1h)"),
        ("body => '\\x00', content_type => 'x/y'", "a payload and a body"),
        ("content_type => 'x/y'", "are given together"),
        ("max_payload => 0", "max_payload is 0"),
        ("max_payload => null", "max_payload is null"),
        ("unique_digest => '\\x00'", "has 1 bytes"),
        ("unique_digest => sha256('x'), unique_key => 'x'", "use one of them"),
        ("unique_key => 'x', unique_hold => 'forever'", "use waiting, done, or period"),
        ("unique_key => 'x', unique_hold => 'period'", "period with a unique_period"),
        ("unique_key => 'x', unique_period => '1 day'", "period with a unique_period"),
        ("unique_key => 'x', unique_hold => 'period', unique_period => '1 microsecond'", "1 millisecond"),
        ("unique_key => 'x', unique_hold => 'period', unique_period => '170000000 years'", "to 100 years"),
        ("unique_key => 'x', unique_conflict => 'ignore'", "use keep, replace or reject"),
        ("unique_conflict => 'reject'", "the job has none"),
        ("unique_hold => 'waiting'", "the job has none"),
    ] {
        let error = place.send(arguments, &[]).await.unwrap_err();
        assert!(error.contains(why), "{arguments}: {error}");
    }
    // It repeats neither a long name nor what a terminal interprets.
    for name in ["tenant", "exclusive_group", "limit_key", "unique_key", "retry"] {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_delays_that_the_library_reads_are_taken() {
    let Some(place) = Place::create().await else { return };
    for (text, is_good) in [
        ("exponential(2s, 2, 1h)", true),
        ("exponential( 1m 30s ,1.5, 1d )", true),
        ("fixed(30s)", true),
        ("PT1M,PT5M, PT1H", true),
        ("1d 2h 3m 4.5s", true),
        ("5ms,6us,7\u{b5}s,8ns", true),
        ("fixed()", false),
        ("exponential(2s, 0.5, 1h)", false),
        ("exponential(2s, 2)", false),
        ("", false),
        ("PT", false),
        ("1s,", false),
        ("-5s", false),
        ("1mo", false),
        ("fixed(999999999999s)", false),
        ("5s\n", false),
    ] {
        let sent = place.send("retry => $1", &[&text]).await;
        assert_eq!(sent.is_ok(), is_good, "{text:?}: {sent:?}");
        if let Ok(id) = sent {
            assert_eq!(place.options(id).await.retry, Some(text.parse::<RetryPolicy>().unwrap()), "{text:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_and_order_in_a_group() {
    let Some(place) = Place::create().await else { return };
    let id = place.send("exclusive_group => 'g', ordered => true", &[]).await.unwrap();
    assert_eq!(place.options(id).await, message(job().ordered("g")).options);
    let bytes = format!(
        "select {}.send('kind', null, body => '\\x00ff', content_type => 'x/y', max_payload => 2)",
        place.db.schema()
    );
    let id: uuid::Uuid = place.client.query_one(&bytes, &[]).await.unwrap().get(0);
    assert_eq!(place.db.jobs().detail(id.into()).await.payload, Payload::bytes("x/y", [0, 255]));
    let error = place.client.query_one(&bytes.replace("=> 2)", "=> 1)"), &[]).await.unwrap_err();
    assert!(error.as_db_error().unwrap().message().contains("has 2 bytes, 1 is the limit"), "{error:?}");
    let none = format!("select {}.send('kind', null)", place.db.schema());
    let error = place.client.query_one(&none, &[]).await.unwrap_err();
    assert!(error.as_db_error().unwrap().message().contains("or a body"), "{error:?}");
}

/// Sends with this id as the library would, in each state of a job, and another job with it.
pub(crate) async fn a_given_id_is_sent_once<const POOLED: bool>(db: &Pg<POOLED>) {
    let (store, client) = (db.jobs(), db.aside().await);
    let send = async |kind: &str, more: &str, id: JobId| {
        let sql = format!("select {}.send('{kind}', '1', id => $1{more})", db.schema());
        client.query_one(&sql, &[id.as_uuid()]).await.map(|row| JobId::from(row.get::<_, uuid::Uuid>(0)))
    };
    let states: [(JobState, NewJob); 6] = [
        (JobState::Waiting, job()),
        (JobState::Timer, job().delay(LATER)),
        (JobState::Running, job()),
        (JobState::Suspended, job()),
        (JobState::Dead, job()),
        (JobState::External, job()),
    ];
    for (state, sent) in states {
        let id = store.send(sent).await;
        is_moved(db, &store, id, state).await;
        let before = format!("{:?}", store.detail(id).await);
        for more in ["", ", due_at => now() + interval '1 day'", ", unique_key => 'k', unique_conflict => 'replace'"] {
            assert_eq!(send("kind", more, id).await.unwrap(), id, "{state}");
        }
        for (kind, more, why) in [
            ("other", "", "with another kind:"),
            ("kind", ", queue => 'other'", "with another queue:"),
            ("other", ", queue => 'other', unique_key => 'k'", "with another kind and another queue:"),
        ] {
            let error = send(kind, more, id).await.unwrap_err();
            let error = error.as_db_error().unwrap();
            assert_eq!(*error.code(), SqlState::UNIQUE_VIOLATION, "{state}: {error}");
            assert!(error.message().contains(why) && error.message().contains(&id.to_string()), "{state}: {error}");
        }
        assert_eq!(format!("{:?}", store.detail(id).await), before, "{state}");
        let keys: i64 = client.query_one("select count(*) from unique_key", &[]).await.unwrap().get(0);
        assert_eq!((keys, store.all().await.len()), (0, 1), "{state}");
        db.clear().await;
    }
    // A job that is gone leaves its id free, and any UUID will do.
    for id in [uuid::Uuid::nil(), uuid::Uuid::max(), uuid::Uuid::new_v4()] {
        assert_eq!(send("kind", "", id.into()).await.unwrap(), id.into());
        let again = store.insert(&[message(job().id(id.into()))], None).await.unwrap();
        assert_eq!((again.rows, again.known), (0, vec![id.into()]));
        store.delete(&JobFilter::ids([id.into()]), false).await.unwrap();
        assert_eq!(send("other", ", queue => 'other'", id.into()).await.unwrap(), id.into());
    }
    let error = client.query_one(&format!("select {}.send('k', '1', id => 'seven')", db.schema()), &[]).await;
    assert!(error.unwrap_err().as_db_error().unwrap().message().contains("invalid input syntax for type uuid"));
}

/// Brings a job that was just sent into this state.
async fn is_moved<const POOLED: bool>(db: &Pg<POOLED>, store: &Jobs, id: JobId, state: JobState) {
    match state {
        JobState::Running | JobState::Dead => {
            let node = store.node().await;
            let claimed = store.take_one(node).await;
            if state == JobState::Dead {
                assert!(store.settle_one(node, claimed.fence(), Verdict::Dead).await);
            }
        }
        JobState::Suspended => db.suspend(id).await,
        JobState::External => {
            assert_eq!(store.hand_out("default", 1, LATER, hand_out_number()).await.unwrap().len(), 1);
        }
        _ => {}
    }
    assert_eq!(store.state(id).await, Some(state));
}

pub(crate) async fn senders_of_one_id_wait_for_each_other<const POOLED: bool>(db: &Pg<POOLED>) {
    let id = JobId::new();
    for commits in [false, true] {
        let sql = format!("select {{schema}}.send('kind', '1', id => '{id}')");
        let first = db.hold(&sql).await;
        let (client, sql) = (db.client().await, sql.replace("{schema}", db.schema()));
        let second = tokio::spawn(async move { client.query_one(&sql, &[]).await });
        eventually(Duration::from_secs(30), async || first.waiting().await == 1).await;
        if commits {
            first.commit().await;
        } else {
            first.release().await;
        }
        let second = second.await.unwrap().unwrap();
        assert_eq!(JobId::from(second.get::<_, uuid::Uuid>(0)), id);
        assert_eq!(db.jobs().all().await.len(), 1, "commits: {commits}");
        if !commits {
            db.clear().await;
        }
    }
}

/// How a key is held and what a conflict does are the library's.
pub(crate) async fn uniqueness_by_hand<const POOLED: bool>(db: &Pg<POOLED>) {
    let store = db.jobs();
    let send = async |key: &str, more: &str| {
        let sql = format!("select {}.send('kind', '1', unique_key => $1{more})", db.schema());
        let row = db.aside().await.query_one(&sql, &[&key]).await;
        row.map(|row| JobId::from(row.get::<_, uuid::Uuid>(0)))
    };
    let day = Duration::from_secs(24 * 3600);
    for (key, more, unique) in [
        ("a", "", Unique::key("a")),
        ("b", ", unique_hold => 'waiting'", Unique::key("b").while_waiting()),
        ("c", ", unique_hold => 'period', unique_period => '1 day'", Unique::key("c").for_period(day)),
        ("d", ", unique_conflict => 'replace'", Unique::key("d").replace()),
        ("e", ", unique_conflict => 'reject'", Unique::key("e").reject()),
    ] {
        let id = send(key, more).await.unwrap();
        let asked = message(job().unique(unique)).options;
        assert_eq!(store.detail(id).await.options, asked, "{key}");
        let digest = asked.unique.unwrap().key;
        let by_digest = format!("select {}.send('kind', '1', unique_digest => decode($1, 'hex'))", db.schema());
        let row = db.aside().await.query_one(&by_digest, &[&digest]).await.unwrap();
        assert_eq!(JobId::from(row.get::<_, uuid::Uuid>(0)), id, "the key of the library is the same");
    }
    let held = store.all().await.len();
    let first = send("x", "").await.unwrap();
    let error = send("x", ", unique_conflict => 'reject'").await.unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!(*error.code(), SqlState::UNIQUE_VIOLATION);
    assert!(error.message().contains(&format!("job {first} holds its key")), "{error}");
    let second = send("x", ", unique_conflict => 'replace'").await.unwrap();
    assert_ne!(second, first);
    assert_eq!((store.state(first).await, store.all().await.len()), (None, held + 1));
}
