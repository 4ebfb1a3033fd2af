use std::time::Duration;

use super::{TempFile, claim, job, message, node, operate};
use crate::config::DatabaseConfig;
use crate::error::ErrorKind;
use crate::job::{ClaimNumber, JobId};
use crate::store::sections::section;
use crate::store::sqlite::filter::Filter;
use crate::store::sqlite::statements::render;
use crate::store::sqlite::{MIGRATIONS, Sqlite};
use crate::store::{
    Action, Claims, Enqueue, Hint, JobFilter, JobState, Maintenance, Nodes, Operator, Preclaim, Store, UnitOfWork,
    check_schema,
};

async fn refused(url: String) -> crate::Error {
    Sqlite::open(&DatabaseConfig::url(url)).await.unwrap_err()
}

#[tokio::test]
async fn what_is_wrong_with_the_file_is_said() {
    let temp = TempFile::new();
    let path = |name: &str| format!("sqlite:{}", temp.0.join(name).display());
    std::fs::write(temp.0.join("text"), "not a database, but long enough to look like one".repeat(50)).unwrap();
    for (url, kind, text) in [
        (path(""), ErrorKind::Config, "is a directory"),
        (path("no/jobs.db"), ErrorKind::Config, "does not exist"),
        (path("text"), ErrorKind::Config, "not an SQLite database"),
        ("postgres://host/db".to_owned(), ErrorKind::Config, "sqlite:FILE"),
    ] {
        let error = refused(url).await;
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
}

/// Another program's SQL stored values that no job has: the nearest valid values are shown, and all other jobs with them.
#[tokio::test]
async fn what_is_out_of_range_is_listed() {
    let temp = TempFile::new();
    let store = temp.store().await;
    let file = rusqlite::Connection::open(temp.0.join("jobs.db")).unwrap();
    let far = [("9223372036854775807", "5000000000"), ("-9223372036854775808", "-1"), ("0", "1")];
    for (seq, (moment, number)) in far.iter().enumerate() {
        file.execute_batch(&format!(
            "insert into jobwright_job
             (seq, state, version, dead_at, created_at, id, attempt, max_attempts, rank, kind, queue, reason, payload)
             values ({seq}, 'dead', 1, {moment}, {moment}, randomblob(16), {number}, {number}, {moment}, 'k', 'q', 'no', '1');
             insert into jobwright_job (seq, state, version, due_at, created_at, id, attempt, max_attempts, rank, kind, queue, payload)
             values ({seq} + 10, 'timer', 1, {moment}, {moment}, randomblob(16), {number}, {number}, {moment}, 'k', 'q', '1')"
        ))
        .unwrap();
    }
    let jobs = store.engine();
    let page = crate::store::Page { after: None, limit: 100 };
    let all = jobs.list(&JobFilter::default(), &page).await.unwrap();
    let seen: Vec<_> = all.iter().map(|job| (job.seq, job.priority, job.attempt)).collect();
    let (low, high) = (i16::MIN, i16::MAX);
    let expected = [(0, low, u32::MAX), (1, high, 0), (2, 0, 1), (10, low, u32::MAX), (11, high, 0), (12, 0, 1)];
    assert_eq!(seen, expected);
    assert_eq!((all[0].created_at, all[4].due_at), (jiff::Timestamp::MAX, Some(jiff::Timestamp::MIN)));
    for job in &all {
        let shown = jobs.show(job.id).await.unwrap().unwrap().summary;
        assert_eq!(format!("{shown:?}"), format!("{job:?}"));
    }
}

/// A superuser may write everything, so for one this test proves nothing.
#[cfg(unix)]
#[tokio::test]
async fn a_file_without_permissions_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let temp = TempFile::new();
    drop(temp.store().await);
    let file = temp.0.join("jobs.db");
    let set = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set(&file, 0o444);
    if std::fs::OpenOptions::new().append(true).open(&file).is_ok() {
        return;
    }
    assert_eq!(refused(format!("sqlite:{}", file.display())).await.kind(), ErrorKind::ReadOnly);
    set(&file, 0o644);
    set(&temp.0, 0o555);
    let error = refused(format!("sqlite:{}", temp.0.join("new.db").display())).await;
    set(&temp.0, 0o755);
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
}

#[tokio::test]
async fn a_file_without_tables_says_what_to_do() {
    let temp = TempFile::new();
    let store = Sqlite::open(&temp.config()).await.unwrap();
    let errors = [
        store.insert(&[message(job())], None).await.unwrap_err(),
        store.status().await.unwrap_err(),
        check_schema(&store).await.unwrap_err(),
        store.begin().await.unwrap().insert(&[message(job())], None).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Schema, "{error}");
        assert!(error.to_string().contains("jobwright migrate"), "{error}");
    }
    assert!(store.migration_status().await.unwrap()[0].applied_at.is_none());
    store.migrate().await.unwrap();
    check_schema(&store).await.unwrap();
}

#[test]
fn many_can_open_and_migrate_a_new_file_at_once() {
    let temp = TempFile::new();
    let config = DatabaseConfig { call_timeout: Duration::from_secs(30), ..temp.config() };
    let threads: Vec<_> = (0..10)
        .map(|_| {
            let config = config.clone();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let store = Sqlite::open(&config).await.unwrap();
                    let status = store.migrate().await.unwrap();
                    assert!(status.iter().all(|row| row.known && row.applied_at.is_some()));
                });
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let rows: i64 =
        temp.stranger().query_row("select count(*) from jobwright_migration", (), |row| row.get(0)).unwrap();
    assert_eq!(rows, i64::try_from(MIGRATIONS.len()).unwrap(), "each once");
}

#[tokio::test]
async fn a_newer_or_edited_schema_is_refused() {
    let temp = TempFile::new();
    let store = temp.store().await;
    let stranger = temp.stranger();
    stranger.execute("insert into jobwright_migration values (99, 'later', 'x', 99, true, 0)", ()).unwrap();
    for error in [store.migrate().await.unwrap_err(), check_schema(&store).await.unwrap_err()] {
        assert!(error.kind() == ErrorKind::Schema && error.to_string().contains("too old for"), "{error}");
    }
    stranger.execute_batch("delete from jobwright_migration where version = 99").unwrap();
    stranger.execute_batch("update jobwright_migration set checksum = 'x'").unwrap();
    assert_eq!(store.migrate().await.unwrap_err().kind(), ErrorKind::Schema);
}

/// Before the jobs of all states had one table, each state had its own.
#[tokio::test]
async fn a_file_of_an_earlier_build_is_refused() {
    let temp = TempFile::new();
    drop(temp.store().await);
    let earlier = "create table jobwright_timer_job (seq integer primary key);
                   insert into jobwright_migration values (2, 'kinds left alone', 'x', 1, true, 0)";
    temp.stranger().execute_batch(earlier).unwrap();
    let store = Sqlite::open(&temp.config()).await.unwrap();
    let refusals = [
        store.migrate().await.unwrap_err(),
        store.migration_status().await.unwrap_err(),
        check_schema(&store).await.unwrap_err(),
    ];
    for error in refusals {
        assert_eq!(error.kind(), ErrorKind::Schema, "{error}");
        let text = error.to_string();
        assert!(
            text.contains("export its jobs with the build that made it") && text.contains("send the jobs again"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn commits_of_others_are_heard_and_looking_is_not() {
    let temp = TempFile::new();
    let store = temp.patient().await;
    let other = temp.patient().await;
    let owner = node(&store).await;
    let mut hints = store.listen().await.unwrap().unwrap();
    let quiet = Duration::from_millis(200);

    for store in [&store, &other] {
        assert!(store.claim(&claim(owner, 10)).await.unwrap().jobs.is_empty());
        assert_eq!(store.promote_due(10).await.unwrap().jobs, 0);
        assert!(store.node_heartbeats().await.unwrap().iter().all(|heartbeat| !heartbeat.dead));
        assert!(store.heartbeat(owner).await.unwrap());
        assert_eq!(store.release_lost(10, None).await.unwrap().total(), 0);
        assert_eq!(operate(store, &JobFilter::default(), Action::Cancel).await.unwrap().total(), 0);
        store.migrate().await.unwrap();
        drop(store.begin().await.unwrap());
    }
    assert!(tokio::time::timeout(quiet, hints.next()).await.is_err());

    for store in [&store, &other] {
        store.insert(&[message(job())], None).await.unwrap();
        let hint = tokio::time::timeout(Duration::from_secs(5), hints.next()).await.unwrap().unwrap();
        assert_eq!(hint, Hint::Any);
        assert!(tokio::time::timeout(quiet, hints.next()).await.is_err());
    }
}

/// Writes as an enlisted transaction does.
fn insert_into(
    store: &Sqlite,
    caller: &rusqlite::Connection,
    messages: &[crate::JobMessage],
) -> crate::Result<crate::store::Inserted> {
    let (mut lent, desk) = store.lend();
    desk.serve(caller, crate::store::UnitOfWork::insert(&mut lent, messages, None))
}

#[tokio::test]
async fn messages_join_a_transaction_of_the_callers_own() {
    let temp = TempFile::new();
    let store = temp.patient().await;
    let mut mine = temp.stranger();
    mine.execute_batch("create table mine (x)").unwrap();

    let tx = mine.transaction().unwrap();
    tx.execute("insert into mine values (1)", ()).unwrap();
    let later = job().delay(Duration::from_secs(60));
    assert_eq!(insert_into(&store, &tx, &[message(job()), message(later)]).unwrap().rows, 2);
    assert!(store.status().await.unwrap().queues.is_empty());
    tx.commit().unwrap();
    let status = store.status().await.unwrap();
    assert_eq!((status.queues[0].waiting.get(), status.queues[0].timer.get()), (1, 1));

    // The flush is rejected as a whole, and the caller may go on.
    mine.execute_batch(
        "create temp trigger refuse before insert on jobwright_job when new.kind = 'bad' begin select raise(abort, 'no'); end",
    )
    .unwrap();
    let tx = mine.transaction().unwrap();
    tx.execute("insert into mine values (2)", ()).unwrap();
    let bad = crate::NewJob::json("bad", &1);
    assert_eq!(insert_into(&store, &tx, &[message(job()), message(bad)]).unwrap_err().kind(), ErrorKind::Database);
    tx.commit().unwrap();
    assert_eq!(store.status().await.unwrap().queues[0].waiting, 1);
    let rows: i64 = mine.query_row("select count(*) from mine", (), |row| row.get(0)).unwrap();
    assert_eq!(rows, 2);
}

/// Returns the query for a page of jobs.
fn listed(condition: &str) -> String {
    section(include_str!("../admin.sql"), "list").replace("{filter}", condition)
}

/// A plan that scans a table would only be noticed with a million rows in it.
#[tokio::test]
async fn hot_statements_use_their_indexes() {
    let temp = TempFile::new();
    let _store = temp.store().await;
    let connection = temp.stranger();
    let sql = |file: &'static str, name: &str| render(section(file, name));
    let status = include_str!("../status.sql");
    let of = |name: &str, of: &str, index: &str| sql(status, name).replace("{of}", of).replace("{index}", index);
    let settle = include_str!("../settle.sql");
    let claim = include_str!("../claim.sql");
    let external = include_str!("../external.sql");
    let nodes = include_str!("../nodes.sql");
    let maintenance = include_str!("../maintenance.sql");
    let history = include_str!("../history.sql");
    let outcomes = include_str!("../outcomes.sql");
    let expiring = include_str!("../expiring.sql");
    let dead = JobFilter { ids: Some(vec![JobId::new()]), states: Some(vec![JobState::Dead]), ..JobFilter::default() };
    let statements = [
        (sql(claim, "release_unknown"), "jobwright_job_owned (lock_owner=?)"),
        (sql(claim, "claim"), "jobwright_job_acquire (queue=? AND rank=? AND seq>? AND seq<?)"),
        (sql(claim, "claim_check"), "COVERING INDEX jobwright_job_acquire (queue=? AND rank=? AND seq>? AND seq<?)"),
        (sql(settle, "complete"), "jobwright_job_id (id=?)"),
        (sql(outcomes, "complete_all"), "jobwright_job_id (id=?)"),
        (sql(settle, "taken_row"), "jobwright_job_id (id=?)"),
        (sql(claim, "claim_delivered"), "jobwright_job_id (id=?)"),
        (sql(include_str!("../insert.sql"), "unhide"), "jobwright_job_id (id=?)"),
        (sql(external, "hand_out"), "jobwright_job_acquire (queue=?)"),
        (sql(external, "hand_out_check"), "COVERING INDEX jobwright_job_acquire (queue=?)"),
        (sql(external, "late_leases"), "jobwright_job_lease (lease_until<?)"),
        (sql(external, "late_check"), "jobwright_job_lease (lease_until<?)"),
        (sql(claim, "claim_suspects"), "jobwright_job_blocked (blocked_on=? AND share=?)"),
        (sql(expiring, "next_expiry"), "jobwright_job_expires"),
        (sql(expiring, "expire").replace("{expired}", &sql(expiring, "expired")), "jobwright_job_expires (<expr><?)"),
        (sql(include_str!("../receive.sql"), "prune_submissions"), "jobwright_submission_received (received_at<?)"),
        (sql(history, "prune_audit"), "jobwright_audit_at (at<?)"),
        (sql(history, "prune_dead_letters"), "jobwright_job_dead (dead_at<?)"),
        (sql(maintenance, "promote"), "jobwright_job_due (due_at<?)"),
        (sql(maintenance, "next_timer"), "jobwright_job_due"),
        (sql(nodes, "lost_rows"), "jobwright_job_owned"),
        (sql(nodes, "lost_check"), "jobwright_job_owned"),
        (sql(nodes, "forget_nodes"), "jobwright_job_owned (lock_owner=?)"),
        (sql(include_str!("../admin.sql"), "show"), "jobwright_job_id (id=?)"),
        (sql(include_str!("../admin.sql"), "state"), "jobwright_job_id (id=?)"),
        (sql(include_str!("../rules.sql"), "permit_running"), "jobwright_job_admitted"),
        (sql(status, "lanes"), "COVERING INDEX jobwright_job_acquire (queue=? AND rank>?)"),
        (sql(status, "lanes"), "COVERING INDEX jobwright_job_acquire (queue>?)"),
        (sql(status, "lane"), "COVERING INDEX jobwright_job_acquire (queue=? AND rank=?)"),
        (of("queues", "state = 'dead'", "jobwright_job_dead_queue"), "COVERING INDEX jobwright_job_dead_queue (queue>?)"),
        (of("queue", "state = 'timer'", "jobwright_job_timer_queue"), "COVERING INDEX jobwright_job_timer_queue (queue=?)"),
        (of("queues", "blocked_on is not null", "jobwright_job_blocked_queue"), "COVERING INDEX jobwright_job_blocked_queue (queue>?)"),
        (of("queue", "blocked_on is not null", "jobwright_job_blocked_queue"), "COVERING INDEX jobwright_job_blocked_queue (queue=? AND blocked_on>?)"),
        (sql(include_str!("../unreadable.sql"), "unreadable_jobs"), "jobwright_job_dead"),
        (listed("state = 'dead'"), "jobwright_job_set_aside (state=? AND seq>?)"),
        (
            "delete from jobwright_job where state in ('waiting', 'timer') and id in (select unhex(value) from json_each(:ids))".into(),
            "jobwright_job_id (id=?)",
        ),
        (sql(include_str!("../admission.sql"), "holder_blocked_on_key"), "jobwright_job_id (id=?)"),
        (
            Filter::new(&dead, &[JobState::Dead]).arms("select count(*) from jobwright_job where {filter}").unwrap(),
            "jobwright_job_id (id=?)",
        ),
    ];
    // What the planner knows of the tables may come from a time when they were empty.
    let analysed = statements.clone().map(|(sql, index)| (sql, index, true));
    for (sql, index, analysed) in statements.map(|(sql, index)| (sql, index, false)).into_iter().chain(analysed) {
        if analysed {
            connection.execute_batch("analyze").unwrap();
        }
        let sql = render(&sql);
        let mut statement = connection.prepare(&format!("explain query plan {sql}")).unwrap();
        // Unbound parameters are NULL, which changes no plan.
        let rows = statement.raw_query().mapped(|row| row.get::<_, String>(3));
        let plan: Vec<String> = rows.map(Result::unwrap).collect();
        assert!(plan.iter().any(|line| line.contains(index)), "{index}: {plan:#?}\n{sql}");
        let walks = |line: &String| {
            line.starts_with("SCAN jobwright")
                && !line.contains("INDEX")
                && !line.contains("_node")
                // Handlers of cancelled jobs are few.
                && !line.contains("_terminating")
                && !line.contains("_rule")
        };
        assert!(!plan.iter().any(walks), "{plan:#?}\n{sql}");
        let sorts = |line: &String| {
            line.contains("TEMP B-TREE") && sql.contains("limit :limit") && !sql.contains("job.lock_owner")
        };
        assert!(!plan.iter().any(sorts), "{plan:#?}\n{sql}");
    }
}

#[tokio::test]
async fn people_can_read_the_view() {
    let temp = TempFile::new();
    let store = temp.patient().await;
    let owner = node(&store).await;
    let first = message(job().priority(7));
    store
        .insert(
            std::slice::from_ref(&first),
            Some(&Preclaim { node: owner, claim: ClaimNumber::new(0), ids: [first.id].into() }),
        )
        .await
        .unwrap();
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    let (id, state, priority, created): (String, String, i64, String) =
        temp.stranger().query_row("select id, state, priority, created_at from jobwright_jobs", (), read).unwrap();
    assert_eq!((id, state.as_str(), priority), (first.id.to_string(), "running", 7));
    let age = jiff::Timestamp::now().duration_since(created.parse().unwrap());
    assert!(age.abs() < jiff::SignedDuration::from_secs(60), "{created}");
}
