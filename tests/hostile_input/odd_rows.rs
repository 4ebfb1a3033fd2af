//! Rows with the extreme values of their types, in every column of every table that holds jobs or is written by senders: as third-party SQL could
//! write them, and as rows from a time without the constraints that keep them out. Each may cost itself, and nothing else. A column that is added later is
//! tried without a change here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use jobwright::admin::{HistoryFilter, JobFilter, JobState, Rule, Scope};
use jobwright::internal::engine::{ClaimRequest, MaintenanceRequest};
use jobwright::{JobId, NodeId};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use crate::support::jobs::{claim_number, fences, job, jobs};
use crate::support::postgres::Pg;
use crate::support::{Jobs, TestDb as _, eventually};

/// What guards the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// The constraints of the schema: most rows are refused when they come.
    Checked,
    /// The rows come first, as where an owner drops the constraints for a while and adds them as `not valid`.
    FromBefore,
    /// No constraints: an owner has dropped them, or they do not know this value.
    Unchecked,
}

/// A text that no index takes, because it does not compress.
const LONG: &str = "(select string_agg(md5(g || random()::text), '') from generate_series(1, 400) g)";

fn extremes(column: &str, data_type: &str) -> Vec<String> {
    let all = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    match data_type {
        "smallint" => all(&["-32768", "32767"]),
        "integer" => all(&["-2147483648", "2147483647", "-1", "0"]),
        "bigint" => all(&["-9223372036854775808", "9223372036854775807", "1099511627776", "-1"]),
        "boolean" => all(&["true", "false"]),
        "uuid" => all(&["'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"]),
        "text" => all(&["''", LONG, "E'a\\nb\\u0001'", "repeat('x', 1000000)", "'g:a'", "'unreadable:x'"]),
        "bytea" => all(&["''", "decode(repeat('ff', 1000000), 'hex')"]),
        "interval" => all(&["'-1 second'", "'178000000 years'", "'0'"]),
        "timestamp with time zone" => {
            all(&["'infinity'", "'-infinity'", "'4713-01-01 BC'", "'294276-12-31'", "'200000-01-01'"])
        }
        "jsonb" => {
            let mut documents: Vec<String> =
                all(&["'null'", "'[]'", "'5'", "'\"group\"'", "'{}'", "'{\"a\": {\"b\": [1, null]}}'"]);
            documents.push("jsonb_build_array(repeat('x', 1000000))".to_owned());
            documents.push("(select jsonb_agg(g) from generate_series(1, 50000) g)".to_owned());
            documents.push(
                "(select jsonb_object_agg('h' || g, repeat('v', 100)) from generate_series(1, 5000) g)".to_owned(),
            );
            documents.push("'[{\"at\": \"infinity\", \"attempt\": \"x\", \"error\": 5}]'".to_owned());
            if column == "options" {
                let members = ["group", "ordered", "tenant", "limit", "ttl", "expires", "aged", "retry", "unique"];
                let values =
                    ["null", "5", "-9223372036854775808", "9223372036854775807", "1e300", "true", "[]", "{}", "\"x\""];
                for member in members {
                    documents.extend(values.map(|value| format!("'{{\"{member}\": {value}}}'")));
                    documents.push(format!("jsonb_build_object('{member}', {LONG})"));
                }
                documents.push("'{\"expires\": -9223372036854775808, \"ttl\": 9223372036854775807}'".to_owned());
                documents.push("'{\"expires\": 9223372036854775807, \"ttl\": -9223372036854775808}'".to_owned());
            }
            documents
        }
        other => panic!("no extreme values of {other}: the column {column} is not tried"),
    }
}

/// The tables, and the values that a row needs. `{n}` is a number of the row.
const TABLES: [(&str, &[(&str, &str)]); 7] = [
    ("job", &[]),
    ("timer_job", &[("due_at", "now() - interval '1 second'")]),
    ("suspended_job", &[("seq", "{n}"), ("version", "0"), ("created_at", "now()"), ("attempt", "0")]),
    (
        "dead_letter_job",
        &[("seq", "{n}"), ("version", "0"), ("created_at", "now()"), ("attempt", "0"), ("reason", "'no'")],
    ),
    (
        "external_job",
        &[
            ("seq", "{n}"),
            ("version", "7"),
            ("lease", "interval '1 second'"),
            ("lease_until", "now() - interval '1 second'"),
            ("created_at", "now()"),
            ("attempt", "1"),
        ],
    ),
    ("unblock", &[("key", "'g:{n}'")]),
    (
        "unique_key",
        &[
            ("key", "decode(md5('{n}'), 'hex')"),
            ("job_id", "gen_random_uuid()"),
            ("hold", "'period'"),
            ("expires_at", "now()"),
        ],
    ),
];

/// Where a row of a table is met: by a claim, by the release of a dead node's jobs, by expiry, by an admission pass.
fn places(table: &str) -> &'static [&'static [(&'static str, &'static str)]] {
    match table {
        "job" => &[
            &[],
            &[("lock_owner", "4711"), ("claimed_at", "now()"), ("version", "1")],
            &[("options", "'{\"expires\": 1}'")],
            &[("options", "'{\"group\": \"of {n}\"}'")],
            &[("options", "'{\"tenant\": \"acme\"}'")],
        ],
        "timer_job" => &[&[], &[("options", "'{\"expires\": 1}'")], &[("options", "'{\"group\": \"of {n}\"}'")]],
        _ => &[&[]],
    }
}

/// Writes all the rows. Returns how many were refused, and the ids of the jobs that were not, with what is odd about them.
async fn write_all(client: &Client, schema: &str) -> (usize, BTreeMap<Uuid, String>) {
    let (mut refused, mut written, mut n) = (0, BTreeMap::new(), 0);
    for (table, needed) in TABLES {
        let columns = "select column_name::text, data_type::text from information_schema.columns
                       where table_schema = $1 and table_name = $2 order by ordinal_position";
        let columns = client.query(columns, &[&schema, &table]).await.unwrap();
        assert!(columns.len() > 2, "{table}");
        for column in &columns {
            let (column, data_type): (&str, &str) = (column.get(0), column.get(1));
            for value in extremes(column, data_type).into_iter().chain(["null".to_owned()]) {
                for place in places(table) {
                    n += 1;
                    let mut values: BTreeMap<&str, &str> =
                        needed.iter().copied().chain(place.iter().copied()).collect();
                    if table.ends_with("job") {
                        let job =
                            [("id", "gen_random_uuid()"), ("kind", "'odd'"), ("queue", "'default'"), ("rank", "0")];
                        let job = job.into_iter().chain([("max_attempts", "3"), ("payload", "'1'")]);
                        job.for_each(|(name, value)| {
                            let _ = values.entry(name).or_insert(value);
                        });
                    }
                    if column == "body" && value != "null" {
                        values.insert("payload", "null");
                    }
                    values.insert(column, &value);
                    let (names, texts): (Vec<&str>, Vec<&str>) = values.into_iter().unzip();
                    let id = if table.ends_with("job") { "id" } else { "gen_random_uuid()" };
                    let insert = format!(
                        "insert into {table} ({}) values ({}) returning {id}",
                        names.join(", "),
                        texts.join(", ").replace("{n}", &n.to_string())
                    );
                    match client.query_one(&insert, &[]).await {
                        Ok(row) => {
                            drop(written.insert(row.get(0), format!("{table}.{column} = {value:.60} ({place:?})")));
                        }
                        Err(error) => {
                            assert!(error.as_db_error().is_some(), "{insert:.200}: {error}");
                            refused += 1;
                        }
                    }
                }
            }
        }
    }
    (refused, written)
}

/// Returns the statements that drop the constraints of these tables, and those that add them again for rows that are written from then on. Those that
/// say how two columns go together stay: no row of any build broke them.
async fn constraints(client: &Client, schema: &str) -> (String, String) {
    let constraints = "select conrelid::regclass::text, conname::text, pg_get_constraintdef(oid) from pg_constraint
                       where connamespace = to_regnamespace($1) and contype = 'c'
                         and (select relname from pg_class where pg_class.oid = conrelid) = any ($2)
                         and conname not like '%\\_has\\_one\\_content' and conname not in ('unique_key_check', 'unique_key_hold_check')";
    let rows = client.query(constraints, &[&schema, &TABLES.map(|(table, _)| table).as_slice()]).await.unwrap();
    assert!(rows.len() > 5, "the schema has constraints for new rows");
    let (mut drop, mut add) = (String::new(), String::new());
    for row in &rows {
        let (table, name, definition): (&str, &str, &str) = (row.get(0), row.get(1), row.get(2));
        write!(drop, "alter table {table} drop constraint {name};").unwrap();
        write!(add, "alter table {table} add constraint {name} {definition} not valid;").unwrap();
    }
    (drop, add)
}

/// What the rounds of an executor did.
#[derive(Default)]
struct Done {
    ran: BTreeSet<JobId>,
    /// What failed in the last round.
    failed: Vec<String>,
    /// What failed in any round, to find out more.
    met: BTreeSet<String>,
}

/// Does what the tasks of an executor do, until nothing is left to do. A statement may fail while bad rows are found, but not for ever.
async fn work(store: &Jobs, node: NodeId) -> Done {
    let mut done = Done::default();
    let queues = ["default".to_owned()];
    let mut dead = usize::MAX;
    for _ in 0..300 {
        done.failed.clear();
        let mut busy = 0;
        let mut note = |what: &str, result: jobwright::Result<u64>| match result {
            Ok(n) => busy += n,
            Err(error) => {
                busy += 1;
                done.met.insert(format!("{what}: {error}"));
                done.failed.push(format!("{what}: {error}"));
            }
        };
        note("promote", store.promote_due(1000).await.map(|promoted| promoted.jobs));
        note("expire", store.expire_jobs(500).await.map(|expired| expired.jobs));
        note("release lost", store.release_lost(500, None).await.map(jobwright::admin::Released::total));
        note("expire external", store.expire_external(500).await.map(jobwright::admin::Released::total));
        let request =
            jobwright::internal::engine::AdmitRequest { limit: 500, queues: &queues, kinds: None, counting: false };
        note("admit", store.admit(&request).await.map(|admitted| admitted.jobs + u64::from(admitted.more)));
        note("age", store.age_jobs(200).await.map(|_| 0));
        let claimed = store.claim(&ClaimRequest::new(node, claim_number(), "default", 100)).await;
        let taken = claimed.as_ref().map_or_else(|_| Vec::new(), |claimed| claimed.jobs.clone());
        note("claim", claimed.map(|claimed| claimed.jobs.len() as u64));
        note("complete", store.complete(node, &fences(&taken)).await.map(|accepted| accepted.len() as u64));
        done.ran.extend(taken.iter().map(|job| job.id));
        if busy == 0 {
            // A claim may have met nothing but rows that can't be read.
            let before = std::mem::replace(&mut dead, store.count(JobState::Dead).await);
            if before == dead {
                return done;
            }
        }
    }
    panic!("it does not come to an end: {:#?}", done.failed)
}

/// Looks at everything, as operators do.
async fn look(store: &Jobs) -> Vec<String> {
    let mut failed = Vec::new();
    let mut note =
        |what: &str, error: Option<jobwright::Error>| failed.extend(error.map(|error| format!("{what}: {error:?}")));
    note("status", store.status().await.err());
    note("list", store.list(&JobFilter::default(), &jobwright::admin::Page::new(100_000)).await.err());
    note("clock skew", store.clock_skew().await.err());
    note("repair clock", store.repair_clock().await.err());
    note("permit faults", store.permit_faults().await.err());
    note("overdue unblocks", store.overdue_unblocks().await.err());
    note("dead letters", store.dead_letter_groups(&JobFilter::default(), 1000, 100).await.err());
    note("history", store.history(&HistoryFilter::default(), 1000).await.err());
    note("what is due", store.maintenance_due(&MaintenanceRequest::default()).await.err());
    note("full queues", store.full(&["default"]).await.err());
    note("count", store.retry(&JobFilter::default(), true).await.err());
    failed
}

async fn all_go_on_beside(guard: Guard) {
    let Some(db) = Pg::<false>::create().await else { return };
    let store = Jobs(jobwright::Store::engine(&crate::support::SqlDb::remembering(&db, jobwright::Keep::All).await));
    let client = db.client().await;
    for rule in [
        Rule::new(Scope::Tenant, "*").running(1_000),
        Rule::new(Scope::Key, "*").running(1_000),
        Rule::new(Scope::Queue, "default").aging(Duration::from_secs(1)),
    ] {
        store.put_rule(&rule).await.unwrap();
    }
    let (drop_all, add_all) = constraints(&client, db.schema()).await;
    if guard != Guard::Checked {
        client.batch_execute(&drop_all).await.unwrap();
    }
    let (refused, odd) = write_all(&client, db.schema()).await;
    assert!(refused > 0 && odd.len() > 500, "{refused} were refused, {} written", odd.len());
    if guard == Guard::FromBefore {
        client.batch_execute(&add_all).await.unwrap();
    }
    let node = store.node().await;
    let mut sent = store.send_all(jobs(20)).await;
    sent.extend(store.send_all(jobs(5).into_iter().map(|job| job.exclusive("shared"))).await);
    sent.extend(store.send_all(jobs(5).into_iter().map(|job| job.tenant("acme").limit_key("printer"))).await);
    let soon = Duration::from_millis(1);
    let timers = store.send_all(jobs(5).into_iter().map(|job| job.delay(soon))).await;
    let mortal = store.send_all(jobs(3).into_iter().map(|job| job.queue("elsewhere").ttl(soon))).await;
    eventually(Duration::from_secs(30), async || {
        store
            .list(&JobFilter::ids(timers.iter().copied()), &jobwright::admin::Page::new(10))
            .await
            .unwrap()
            .iter()
            .all(|timer| timer.due_at.is_some_and(|due| due < jiff::Timestamp::now()))
    })
    .await;
    assert_eq!(look(&store).await, Vec::<String>::new(), "before");

    let mut done = work(&store, node).await;
    assert_eq!(done.failed, Vec::<String>::new());
    assert_eq!(look(&store).await, Vec::<String>::new(), "after");
    let missing: Vec<_> = sent.iter().chain(&timers).filter(|id| !done.ran.contains(id)).collect();
    assert!(missing.is_empty(), "{} ordinary jobs did not run", missing.len());
    for id in &mortal {
        assert_eq!(store.state(*id).await, Some(JobState::Dead), "an ordinary job did not expire");
    }
    let all = JobFilter::ids(odd.keys().map(|id| JobId::from(*id)));
    let listed: BTreeSet<JobId> = store.find(&all).await.iter().map(|job| job.id).collect();
    let lost: Vec<&String> = odd
        .iter()
        .filter(|(id, what)| {
            let beside = what.starts_with("unblock") || what.starts_with("unique_key");
            !beside && !done.ran.contains(&JobId::from(**id)) && !listed.contains(&JobId::from(**id))
        })
        .map(|(_, what)| what)
        .collect();
    assert_eq!(lost, Vec::<&String>::new(), "neither ran nor is there");
    for id in &listed {
        store.show(*id).await.unwrap();
    }

    // All are retried at once: those that can't be stay, and the others go on.
    let good = store.send(job()).await;
    store.retry(&JobFilter::default(), false).await.unwrap();
    done = work(&store, node).await;
    assert_eq!(done.failed, Vec::<String>::new());
    assert!(done.ran.contains(&good), "{:?} after {:#?}", store.show(good).await, done.met);
    assert_eq!(look(&store).await, Vec::<String>::new(), "at the end");
    store.delete(&JobFilter::default(), false).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_constraints_let_in() {
    all_go_on_beside(Guard::Checked).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_there_before_the_constraints() {
    all_go_on_beside(Guard::FromBefore).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_constraint_knows() {
    all_go_on_beside(Guard::Unchecked).await;
}

/// What a sender's grants let in once, and what it stopped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_no_statement_could_process_are_refused() {
    let Some(db) = Pg::<false>::create().await else { return };
    let client = db.client().await;
    let refused = async |insert: String| {
        let error = client.execute(&insert, &[]).await.expect_err(&insert);
        // A trigger may be faster than the constraint.
        let expected = [SqlState::CHECK_VIOLATION, SqlState::NOT_NULL_VIOLATION];
        assert!(error.code().is_some_and(|code| expected.contains(code)), "{insert}: {error}");
    };
    for table in ["job", "timer_job"] {
        let due = if table == "timer_job" { (", due_at", ", now()") } else { ("", "") };
        let row = |column: &str, value: &str| {
            let mut values = BTreeMap::from([("kind", "'k'"), ("queue", "'q'"), ("rank", "0"), ("max_attempts", "3")]);
            values.extend([("payload", "'1'"), ("id", "gen_random_uuid()"), (column, value)]);
            let (names, texts): (Vec<&str>, Vec<&str>) = values.into_iter().unzip();
            format!("insert into {table} ({}{}) values ({}{})", names.join(", "), due.0, texts.join(", "), due.1)
        };
        client.execute(&row("kind", "'good'"), &[]).await.unwrap();
        for (column, value) in [
            ("attempt", "2147483647"),
            ("attempt", "-1"),
            ("rank", "-32768"),
            ("kind", LONG),
            ("kind", "repeat('k', 101)"),
            ("queue", "repeat('ä', 51)"),
            ("created_at", "'infinity'"),
            ("created_at", "'-infinity'"),
            ("blocked_on", "''"),
            ("options", "'[]'"),
            ("options", "'\"group\"'"),
            ("options", "'{\"group\": 5}'"),
            ("options", "jsonb_build_object('group', repeat('g', 201))"),
            ("options", "jsonb_build_object('tenant', repeat('t', 201))"),
            ("options", "'{\"ttl\": 5, \"expires\": -1}'"),
            ("options", "'{\"aged\": 9223372036854775807}'"),
            ("headers", "'[]'"),
        ] {
            if column == "blocked_on" && table != "job" {
                continue;
            }
            refused(row(column, value)).await;
        }
        if table == "timer_job" {
            refused(row("version", "1099511627776")).await;
            refused(row("options", "'{\"group\": null}'")).await;
            refused(row("kind", "'k'").replace("now()", "'infinity'")).await;
        }
    }
    refused("insert into unblock (key, unblock_at) values ('g:zz', 'infinity')".to_owned()).await;
    refused("insert into unblock (key, n) values ('g:zz', -1)".to_owned()).await;
    let key =
        "insert into unique_key (key, job_id, hold, expires_at) values ('x', gen_random_uuid(), 'period', 'infinity')";
    refused(key.to_owned()).await;
}
