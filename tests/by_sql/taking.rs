//! Which jobs `take` returns, and what it says about them.

use std::time::Duration;

use jiff::Timestamp;
use jobwright::admin::{JobFilter, JobState, Rule, Scope};
use jobwright::{NewJob, Payload};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Json, NO_RIGHT, REFUSED, Site, accepted, read, take};
use crate::support::eventually;
use crate::support::jobs::{LATER, job, jobs, set};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_about_a_job_is_returned() {
    let Some(site) = Site::create().await else { return };
    let sent = job().priority(-3).max_attempts(7).header("a", "b").exclusive("g").tenant("acme");
    let id = site.jobs.send(sent).await;
    assert_eq!(site.jobs.admit_all().await, 1);
    let before = site.jobs.detail(id).await;
    let rows = site.take("5, interval '10 seconds'").await;
    let [row] = &rows[..] else { panic!("{} jobs were taken", rows.len()) };
    assert_eq!(read(row).id(), id);
    assert_eq!((row.get("kind"), row.get("attempt"), row.get("max_attempts"), row.get("priority")), ("kind", 1, 7, -3));
    assert_eq!((row.get("exclusive_group"), row.get("tenant")), (Some("g"), Some("acme")));
    assert_eq!(row.get::<_, Json>("headers"), Json(json!({ "a": "b" })));
    assert_eq!(row.get::<_, Json>("payload").0, before.payload.decode::<Value>().unwrap());
    assert_eq!(row.get::<_, Option<Vec<u8>>>("body"), None);
    let (created, until): (Timestamp, Timestamp) = (row.get("created_at"), row.get("lease_until"));
    assert_eq!(created, before.summary.created_at);
    let now: Timestamp = site.worker.query_one("select clock_timestamp()", &[]).await.unwrap().get(0);
    assert!(until <= now + Duration::from_secs(10) && until > now, "{until} at {now}");
    let after = site.jobs.detail(id).await;
    assert_eq!(
        (after.summary.state, after.summary.attempt, after.summary.seq),
        (JobState::External, 1, before.summary.seq)
    );
}

/// A body, headers that are none, and what an attempt left for the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_and_what_the_last_attempt_left() {
    let Some(site) = Site::create().await else { return };
    let body = Payload::bytes("image/png", vec![0, 255, 7]);
    let taken = site.taken(NewJob::new("kind", body)).await;
    let sql = "select content_type, octet_length(body) from jobs where id = $1";
    let row = site.worker.query_one(sql, &[&taken.id]).await.unwrap();
    assert_eq!((row.get::<_, &str>(0), row.get::<_, i32>(1)), ("image/png", 3));
    accepted(&site.worker, "progress", taken, ", 40, 'half', '{\"at\": 3}'").await;
    accepted(&site.worker, "fail", taken, ", 'no paper', retry => '0'").await;
    assert_eq!(site.jobs.promote().await, 1);
    let row = &site.take("1").await[0];
    assert_eq!((row.get("attempt"), row.get("last_error")), (2, Some("no paper")));
    assert_eq!(row.get::<_, Json>("headers"), Json(json!({})));
    assert_eq!(row.get::<_, Json>("checkpoint"), Json(json!({ "at": 3 })));
    assert_eq!(row.get::<_, Vec<u8>>("body"), [0, 255, 7]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_best_are_taken_up_to_the_number() {
    let Some(site) = Site::create().await else { return };
    let mut sent = site.jobs.send_all(jobs(3)).await;
    sent.insert(0, site.jobs.send(job().priority(1)).await);
    site.jobs.send(job().queue("other")).await;
    site.jobs.send(job().delay(LATER)).await;
    site.jobs.running(job().queue("default").priority(9)).await;
    let ids = |rows: Vec<tokio_postgres::Row>| rows.iter().map(|row| read(row).id()).collect::<Vec<_>>();
    assert_eq!(ids(site.take("3").await), sent[..3]);
    assert_eq!(ids(site.take("100").await), sent[3..]);
    assert_eq!(ids(site.take("100").await), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_kinds_and_formats_that_the_worker_knows() {
    let Some(site) = Site::create().await else { return };
    let bytes = |format: &str| NewJob::new("file", Payload::bytes(format, vec![1]));
    let formats = ["text/plain", "application/jose", "application/gzip;of=application/json"];
    let mut sent = Vec::new();
    for format in formats {
        sent.push(site.jobs.send(bytes(format)).await);
    }
    let json = site.jobs.send(job()).await;
    let taken = async |arguments: &str| {
        let rows = site.take(arguments).await;
        let taken: Vec<_> = rows.iter().map(read).collect();
        for taken in &taken {
            accepted(&site.worker, "release", *taken, "").await;
        }
        set(taken.iter().map(|taken| taken.id()))
    };
    assert_eq!(taken("9").await, set([sent[0], json]), "what was encoded is left to those who can read it");
    assert_eq!(taken("9, content_types => '{*}'").await, set(sent.iter().copied().chain([json])));
    assert_eq!(taken("9, content_types => '{application/jose}'").await, set([sent[1], json]));
    assert_eq!(taken("9, content_types => '{}'").await, set([json]));
    assert_eq!(taken("9, kinds => '{kind,unknown}'").await, set([json]));
    assert_eq!(taken("9, kinds => '{}'").await, set([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pauses_rules_and_times_to_live_hold() {
    let Some(site) = Site::create().await else { return };
    let limited = site.jobs.send(job().tenant("acme")).await;
    let short = site.jobs.send(NewJob::json("short", &1).ttl(Duration::from_millis(1))).await;
    eventually(Duration::from_secs(10), async || {
        let over = "select (options ->> 'expires')::int8 < extract(epoch from clock_timestamp()) * 1000000 from job where id = $1";
        site.worker.query_one(over, &[short.as_uuid()]).await.unwrap().get(0)
    })
    .await;
    for rule in [
        Rule::new(Scope::Queue, "default").paused(true),
        Rule::new(Scope::Queue, "*").paused(true),
        Rule::new(Scope::Kind, "kind").paused(true),
        Rule::new(Scope::Tenant, "*").running(1),
        Rule::new(Scope::Tenant, "acme").rate(1, LATER),
    ] {
        site.jobs.put_rule(&rule).await.unwrap();
        assert_eq!(site.take("9").await.len(), 0, "{rule:?}");
        if rule != Rule::new(Scope::Tenant, "acme").rate(1, LATER) {
            site.db.raw("delete from {schema}.rule").await;
        }
    }
    // An admission pass counts it, and then it may start.
    assert_eq!(site.jobs.admit_all().await, 1);
    assert_eq!(site.take("9").await.iter().map(|row| read(row).id()).collect::<Vec<_>>(), [limited]);
    assert_eq!(site.jobs.find(&JobFilter::ids([short])).await.len(), 1, "it waits to expire");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_that_make_no_sense_are_refused() {
    let Some(site) = Site::create().await else { return };
    let id = site.jobs.send(job()).await;
    for (call, why) in [
        ("take(null, 'w')", "the queue NULL is null"),
        ("take('', 'w')", "the queue '' is null, empty"),
        ("take(repeat('q', 101), 'w')", "longer than 100 bytes"),
        ("take('default', null)", "the worker NULL is null"),
        ("take('default', E'a\\nb')", "the worker 'a?b' is null, empty"),
        ("take('default', 'w', 0)", "n is 0; use 1 to 1000"),
        ("take('default', 'w', null)", "n is null"),
        ("take('default', 'w', 1, null)", "the lease is null"),
        ("take('default', 'w', 1, '999 milliseconds')", "use 1 second to 1 day"),
        ("take('default', 'w', 1, '25 hours')", "use 1 second to 1 day"),
        ("done(null, null)", "the id or the token of a job is missing"),
        ("done_many('{}', array[gen_random_uuid()])", "the id or the token of a job is missing"),
        (
            "done_many(array[gen_random_uuid()], array[gen_random_uuid()], '{}')",
            "results is a plain list with an element for each job (there are 1)",
        ),
        (
            "done_many(array_fill(gen_random_uuid(), '{2}'), array_fill(gen_random_uuid(), '{2}'))",
            "a job is named twice",
        ),
        (
            "done_many(array_fill(gen_random_uuid(), '{1,1}'), array_fill(gen_random_uuid(), '{1,1}'))",
            "plain lists that begin at 1",
        ),
        (
            "done_many(array_fill(gen_random_uuid(), '{1}', '{0}'), array_fill(gen_random_uuid(), '{1}'))",
            "plain lists that begin at 1",
        ),
        (
            "done_many(array_fill(gen_random_uuid(), '{1}'), array_fill(gen_random_uuid(), '{1}'), array[array['1']]::jsonb[])",
            "results is a plain list",
        ),
        (
            "fail_many(array_fill(gen_random_uuid(), '{1}'), array_fill(gen_random_uuid(), '{1}'), '{e}', '{}')",
            "details is a plain list",
        ),
        ("take('default', 'w', kinds => array[repeat('k', 101)])", "longer than 100 bytes"),
        (
            "progress(gen_random_uuid(), gen_random_uuid(), checkpoint => to_jsonb(repeat('x', 20000)))",
            "20002 bytes, 16384 are the most",
        ),
        ("done(gen_random_uuid(), gen_random_uuid(), keep => '101 years')", "use 1 second to 100 years"),
        ("done(gen_random_uuid(), gen_random_uuid(), keep => '0')", "keep is 00:00:00"),
        ("fail(gen_random_uuid(), gen_random_uuid(), null)", "an error text is missing"),
        ("fail(gen_random_uuid(), gen_random_uuid(), 'e', retry => '-1 second')", "the delay is -00:00:01"),
        ("later(gen_random_uuid(), gen_random_uuid(), null)", "the delay is null"),
        ("extend(gen_random_uuid(), gen_random_uuid(), '0')", "use 1 second to 1 day"),
        ("progress(gen_random_uuid(), gen_random_uuid(), 101)", "percent is 101"),
        (
            "done_many(array_fill(gen_random_uuid(), '{1001}'), array_fill(gen_random_uuid(), '{1001}'))",
            "1001 jobs are too many",
        ),
    ] {
        let error = site.worker.query(&format!("select * from {call}"), &[]).await.expect_err(call);
        let (state, message) = super::told(&error);
        assert_eq!(state, REFUSED, "{call}: {message}");
        assert!(message.starts_with("jobwright.") && message.contains(why), "{call}: {message}");
    }
    assert_eq!(site.jobs.state(id).await, Some(JobState::Waiting));
    assert_eq!(take(&site.worker, "1, kinds => null").await.unwrap().len(), 1);
    assert_ne!(NO_RIGHT, REFUSED);
}

/// What a text in a function means, and what drivers pass for what is not given, must not depend on the session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_sessions_with_odd_settings() {
    let Some(site) = Site::create().await else { return };
    site.jobs.send_all(jobs(3)).await;
    let odd = site.db.client().await;
    odd.batch_execute("set standard_conforming_strings = off; set array_nulls = off; set timezone = 'Asia/Kolkata'; set intervalstyle = 'sql_standard'; set bytea_output = 'escape'").await.unwrap();
    let taken: Vec<_> = take(&odd, "3").await.unwrap().iter().map(read).collect();
    accepted(&site.worker, "done", taken[0], "").await;
    accepted(&odd, "fail", taken[1], ", 'e'").await;
    accepted(&odd, "progress", taken[2], ", 1").await;
    // Null is what was not given: an error, and no answer.
    let (state, _) = super::call(&odd, "done", taken[0], ", strict => null").await.unwrap_err();
    assert_eq!(state, super::LATE);
    let swapped = super::Taken { id: taken[2].token, token: taken[2].id };
    let (_, message) = super::call(&odd, "done", swapped, "").await.unwrap_err();
    assert!(message.contains("swapped") && !message.contains(&taken[2].token.to_string()), "{message}");
    let lease = "select lease from external_job where id = $1";
    accepted(&site.worker, "release", taken[2], "").await;
    let again = read(&take(&odd, "1, '2 mons -59 days'").await.unwrap()[0]);
    let is_a_day = format!("select ({lease}) = interval '1 day'");
    assert!(site.worker.query_one(&is_a_day, &[&again.id]).await.unwrap().get::<_, bool>(0));
}

/// No one finds the token of another's job: not in a view, and not by trying.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_in_no_table_and_opens_one_hand_out() {
    let Some(site) = Site::create().await else { return };
    let sent = site.jobs.send_all(jobs(2)).await;
    let taken: Vec<_> = site.take("2").await.iter().map(read).collect();
    assert_ne!(taken[0].token, taken[1].token);
    let tables =
        "select relname from pg_class where relnamespace = current_schema()::regnamespace and relkind in ('r', 'v')";
    for table in site.worker.query(tables, &[]).await.unwrap() {
        let table: String = table.get(0);
        let sql = format!("select count(*) from \"{table}\" t where strpos(t::text, $1) + strpos(t::text, $2) > 0");
        for token in [taken[0].token, taken[1].token] {
            let (long, short) = (token.to_string(), token.simple().to_string());
            assert_eq!(site.worker.query_one(&sql, &[&long, &short]).await.unwrap().get::<_, i64>(0), 0, "{table}");
        }
    }
    for token in [taken[1].token, Uuid::nil()] {
        let wrong = super::Taken { token, ..taken[0] };
        super::refused(&site.worker, "done", wrong, "", super::LATE).await;
        super::refused(&site.worker, "extend", wrong, "", super::LATE).await;
    }
    // Nor does the token of an earlier hand-out of the same job.
    accepted(&site.worker, "release", taken[0], "").await;
    let again = read(&site.take("1").await[0]);
    assert_eq!((again.id(), again.token == taken[0].token), (sent[0], false));
    super::refused(&site.worker, "done", taken[0], "", super::LATE).await;
    accepted(&site.worker, "done", again, "").await;
}
