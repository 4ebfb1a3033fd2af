//! `MessageServices::as_sql`: a job that another driver sends is the job that a context sends.

use std::time::Duration;

use jobwright::admin::JobState;
use jobwright::codec::{Codec, Label};
use jobwright::{
    BoxError, Command, DatabaseConfig, Due, ErrorKind, JobContext, JobError, JobId, KindOptions, MessageService,
    MessageServices, NewJob, Outcome, Payload, Postgres, RetryPolicy, SqlStatement, TraceContext, Unique,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_postgres::types::Type;

use crate::support::TestDb;
use crate::support::jobs::job;
use crate::support::postgres::Pg;

/// Every field that a sender can set.
fn each_field() -> Vec<NewJob> {
    let hour = Duration::from_secs(3600);
    // Beyond the precision of a server's times nothing can be compared.
    let at = jiff::Timestamp::now().checked_add(hour).unwrap().round(jiff::Unit::Microsecond).unwrap();
    let trace: TraceContext = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap();
    let policies = [
        RetryPolicy::default(),
        RetryPolicy::Exponential { base: Duration::from_micros(1_500_500), factor: 1.25, max: hour },
        RetryPolicy::Fixed(Duration::from_nanos(7)),
        RetryPolicy::Fixed(Duration::from_micros(7)),
        RetryPolicy::Fixed(Duration::from_nanos(7_500_250)),
        RetryPolicy::Fixed(Duration::from_secs(99_999_999_999)),
        RetryPolicy::Intervals(vec![Duration::ZERO, Duration::from_millis(5), hour]),
        RetryPolicy::Exponential { base: hour, factor: f64::MAX / 100.0, max: hour },
    ];
    let unique = [
        Unique::key("käy"),
        Unique::key("k").per_queue().while_waiting(),
        Unique::payload().for_period(Duration::from_micros(86_400_000_001)),
        Unique::fields(["/n", "/missing"]).replace(),
        Unique::key("k").for_period(Duration::from_secs(36_600 * 24 * 3600)).reject(),
    ];
    let mut jobs = vec![
        job(),
        NewJob::json("kind", &()),
        NewJob::json("a \"kind\" 'ä' \\", &json!({ "a": [1.5, "\"\\ä\u{2028}", null, {}], "b": 1e300 })),
        NewJob::new("kind", Payload::json_text(" {\"a\" : 1, \"a\": 2 } ").unwrap()),
        NewJob::new("kind", Payload::bytes("image/png", (0..=255).collect::<Vec<u8>>())),
        NewJob::new("kind", Payload::bytes("x/empty", Vec::new())),
        NewJob::new("kind", Payload::text("täxt\0")),
        job().queue("a 'queue'").priority(32_767).max_attempts(1),
        job().priority(-32_767).max_attempts(1_000_000_000),
        job().delay(Duration::ZERO),
        job().delay(hour),
        job().delay(Duration::from_secs(36_600 * 24 * 3600)),
        job().at(at),
        job().at(jiff::Timestamp::UNIX_EPOCH),
        job().header("h", "").header("\"ä\"", "\n\\'").reply_to("answers", "c-7").trace(trace),
        job().exclusive("a group"),
        job().ordered("g").delay(hour),
        job().ordered("g"),
        job().tenant("acme").limit_key("printer"),
        job().ttl(Duration::from_millis(90_000_001)),
        job().ttl(Duration::from_secs(36_600 * 24 * 3600)).delay(hour),
        NewJob::event("happened", &7),
        job().id(JobId::new()),
        Answer { n: 7 }.job(),
    ];
    jobs.extend(policies.map(|policy| job().retry(policy)));
    jobs.extend(unique.map(|unique| job().queue("u").id(JobId::new()).unique(unique)));
    jobs
}

/// A command, whose options are defaults of its jobs.
#[derive(Serialize, Deserialize)]
struct Answer {
    n: i64,
}

impl Command for Answer {
    const KIND: &'static str = "answer";
    type State = ();

    fn options() -> KindOptions {
        KindOptions::default().queue("answers").priority(-3).max_attempts(2)
    }

    async fn execute(self, _: &mut JobContext<'_>) -> Result<Outcome, JobError> {
        Ok(Outcome::Done)
    }
}

/// All columns of all jobs and of what belongs to them, but for ids, and with times as seconds since the job was sent: `{ABSOLUTE}` is for those that are due
/// at a given time.
const ROWS: &str = "
    with jobs as (
        select 'job' as place, id, to_jsonb(j) as row, created_at, null::timestamptz as due_at from job j
        union all
        select 'timer', id, to_jsonb(t), created_at, due_at from timer_job t
    )
    select jsonb_build_object(
        'jobs', (select jsonb_agg(jsonb_build_object(
                     'place', place, 'row', row - '{id,seq,created_at,due_at}'::text[] #- '{options,expires}',
                     'due', case when {ABSOLUTE} then due_at::text else round(extract(epoch from due_at - created_at)::numeric)::text end,
                     'lives', (row #>> '{options,expires}')::numeric - round(extract(epoch from created_at)::numeric * 1000000)))
                 from jobs),
        'keys', (select jsonb_agg(jsonb_build_object(
                     'key', key, 'hold', hold, 'period', round(extract(epoch from expires_at - taken_at)::numeric),
                     'its', job_id in (select id from jobs)))
                 from unique_key),
        'unblocked', (select jsonb_agg(key) from unblock))";

async fn rows<const POOLED: bool>(db: &Pg<POOLED>, due: Due) -> Value {
    let sql = format!("select ({ROWS})::text").replace("{ABSOLUTE}", &matches!(due, Due::At(_)).to_string());
    let text: String = db.aside().await.query_one(&sql, &[]).await.unwrap().get(0);
    serde_json::from_str(&text).unwrap()
}

fn services(store: Postgres) -> MessageServices {
    MessageServices::new(store, &DatabaseConfig::default())
}

/// Executes a statement in a transaction that these services know as any other, and returns what it answers, or the server's message.
async fn execute(messages: &MessageServices, sql: &SqlStatement) -> Result<JobId, String> {
    let mut cx = messages.begin();
    let transaction = cx.transaction().await.unwrap();
    // Behind a transaction pooler, a statement must not be prepared under a name.
    let answer = transaction.query_typed(&sql.text, &[(&sql.parameter, Type::TEXT)]).await;
    let rows = answer.map_err(|error| error.as_db_error().unwrap().message().to_owned())?;
    let [row] = rows.as_slice() else { panic!("{} rows", rows.len()) };
    cx.commit().await.unwrap();
    assert_eq!(row.columns()[0].name(), "id");
    Ok(JobId::from(row.get::<_, uuid::Uuid>(0)))
}

/// Sends each job in both ways, and compares all that was stored.
async fn is_stored_alike<const POOLED: bool>(db: &Pg<POOLED>, messages: &MessageServices, jobs: Vec<NewJob>) {
    for job in jobs {
        db.clear().await;
        messages.send(job.clone()).await.unwrap();
        let by_context = rows(db, job.due()).await;
        db.clear().await;
        let id = execute(messages, &messages.as_sql(job.clone()).unwrap()).await.unwrap();
        assert_eq!(rows(db, job.due()).await, by_context, "{job:?}");
        assert_eq!((id, db.jobs().all().await[0].id), (job.job_id(), id), "{job:?}");
    }
}

pub(crate) async fn each_field_is_stored_as_by_a_context<const POOLED: bool>(db: &Pg<POOLED>) {
    let messages = services(db.store());
    is_stored_alike(db, &messages, each_field()).await;
    // A command is taken as it is, with the defaults of its kind.
    db.clear().await;
    execute(&messages, &messages.as_sql(Answer { n: 1 }).unwrap()).await.unwrap();
    let stored = &db.jobs().all().await[0];
    assert_eq!((stored.kind.as_str(), stored.queue.as_str(), stored.priority), ("answer", "answers", -3));
}

/// Writes the content backwards, and twice.
#[derive(Debug)]
struct Backwards;

impl Codec for Backwards {
    fn encode(&self, content: Payload, _: Label<'_>) -> Result<Payload, BoxError> {
        let twice = content.as_bytes().iter().chain(content.as_bytes()).rev().copied().collect::<Vec<u8>>();
        Ok(Payload::bytes("x/backwards", twice))
    }

    fn decode(&self, content: Payload, _: Label<'_>) -> Result<Payload, BoxError> {
        Ok(content)
    }
}

pub(crate) async fn hooks_codecs_and_limits_apply<const POOLED: bool>(db: &Pg<POOLED>) {
    let large = |bytes: usize| NewJob::json("kind", &"x".repeat(bytes - 2));
    let config = DatabaseConfig::default().max_payload(3 * 1024 * 1024);
    let largest = MessageServices::new(db.store(), &config);
    // A server writes a space behind each comma: this has four and a half million bytes there.
    let spaced = NewJob::json("kind", &vec![1; 3 * 1024 * 512 - 1]);
    is_stored_alike(db, &largest, vec![large(3 * 1024 * 1024), spaced]).await;
    let refused = largest.as_sql(large(3 * 1024 * 1024 + 1)).unwrap_err();
    assert!(refused.is_invalid() && refused.to_string().contains("database.max_payload"), "{refused}");

    let coded = largest.clone().with_codec(Backwards);
    is_stored_alike(db, &coded, vec![job(), large(3 * 1024 * 1024), NewJob::new("kind", Payload::text("t"))]).await;
    assert!(!format!("{:?}", largest.as_sql(NewJob::json("kind", &"a secret")).unwrap()).contains("secret"));

    let hooked = services(db.store()).on_send(|job, sender| match job.headers().get("h") {
        Some(_) => Err("it has a header".into()),
        None => Ok(job.header("hooked", format!("{}", sender.is_none()))),
    });
    is_stored_alike(db, &hooked, vec![job(), Answer { n: 7 }.job()]).await;
    for bad in [job().header("h", "x"), job().queue(""), job().ttl(Duration::ZERO)] {
        let by_context = hooked.begin().send(bad.clone()).unwrap_err();
        let by_sql = hooked.as_sql(bad).unwrap_err();
        assert_eq!((by_sql.kind(), by_sql.to_string()), (by_context.kind(), by_context.to_string()));
    }
    // A context sends it, and it expires. The SQL function would refuse it, at the cost of the caller's transaction.
    let stillborn = job().at(jiff::Timestamp::now() + Duration::from_secs(3600)).ttl(Duration::from_secs(60));
    let refused = largest.as_sql(stillborn).unwrap_err();
    assert!(refused.is_invalid() && refused.to_string().contains("would never run"), "{refused}");
}

/// A service that changes nothing.
struct Bystander(Box<dyn MessageService<Postgres>>);

impl MessageService<Postgres> for Bystander {
    fn inner(&self) -> Option<&dyn MessageService<Postgres>> {
        Some(&*self.0)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn MessageService<Postgres>> {
        Some(&mut *self.0)
    }
}

pub(crate) async fn custom_services_are_not_passed_over<const POOLED: bool>(db: &Pg<POOLED>) {
    let messages = services(db.store());
    let error = messages.clone().wrap(Bystander).as_sql(job()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(messages.as_sql(job()).is_ok());
}

/// After a commit whose answer was lost.
pub(crate) async fn a_statement_that_is_repeated_sends_nothing_more<const POOLED: bool>(db: &Pg<POOLED>) {
    let messages = services(db.store());
    for job in
        [job(), job().exclusive("g"), job().unique(Unique::key("k").reject()), job().delay(Duration::from_secs(60))]
    {
        db.clear().await;
        let sql = messages.as_sql(job).unwrap();
        let id = execute(&messages, &sql).await.unwrap();
        let before = rows(db, Due::Now).await;
        assert_eq!(execute(&messages, &sql).await.unwrap(), id);
        assert_eq!(rows(db, Due::Now).await, before);
    }
}

pub(crate) async fn keys_that_are_held<const POOLED: bool>(db: &Pg<POOLED>) {
    let messages = services(db.store());
    let send = async |unique: Unique| execute(&messages, &messages.as_sql(job().unique(unique)).unwrap()).await;
    let first = messages.send(job().unique(Unique::key("a"))).await.unwrap();
    assert_eq!(send(Unique::key("a")).await.unwrap(), first, "it is kept");
    let error = send(Unique::key("a").reject()).await.unwrap_err();
    assert!(error.contains(&first.to_string()) && error.contains("must be unique"), "{error}");
    let second = send(Unique::key("a").replace()).await.unwrap();
    assert_eq!((db.jobs().state(first).await, db.jobs().state(second).await), (None, Some(JobState::Waiting)));
    let third = send(Unique::payload().while_waiting()).await.unwrap();
    assert_eq!(messages.send(job().unique(Unique::payload())).await.unwrap(), third);
    db.jobs().take(db.jobs().node().await, 10).await;
    assert_ne!(messages.send(job().unique(Unique::payload())).await.unwrap(), third, "it was held while it waited");
}

/// What was rolled back is nothing.
pub(crate) async fn a_rollback_sends_nothing<const POOLED: bool>(db: &Pg<POOLED>) {
    let messages = services(db.store());
    let sql = messages.as_sql(job().unique(Unique::key("a"))).unwrap();
    let mut cx = messages.begin();
    cx.transaction().await.unwrap().query_typed(&sql.text, &[(&sql.parameter, Type::TEXT)]).await.unwrap();
    cx.rollback().await.unwrap();
    let nothing = rows(db, Due::Now).await;
    assert!(nothing["jobs"].is_null() && nothing["keys"].is_null(), "{nothing}");
}

/// The configuration decides which database it is, so the compiler can't refuse.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_on_any_store_know_whether_it_takes_statements() {
    let connect = async |database: jobwright::DatabaseConfig| {
        let mut config = jobwright::Config::default();
        config.database = database;
        MessageServices::connect(&config).await.unwrap()
    };
    if let Some(db) = Pg::<false>::create().await {
        let any = connect(db.config()).await;
        let (ours, theirs) = (services(db.store()).as_sql(job()).unwrap(), any.as_sql(job()).unwrap());
        assert_eq!((ours.text, ours.queue), (theirs.text, theirs.queue));
    }
    #[cfg(feature = "sqlite")]
    {
        let db = crate::support::sqlite::SqliteDb::create().await.unwrap();
        let error = connect(db.config()).await.as_sql(job()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(error.to_string().contains("embedded"), "{error}");
    }
}
