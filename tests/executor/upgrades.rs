//! The schema is upgraded while the service goes on.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jobwright::internal::engine::Migration;
use jobwright::internal::engine::testing::postgres_statements;
use jobwright::{CommandExecutor, Keep, Outcome};

use crate::support::environment::{PATIENCE, World as _, lease};
use crate::support::jobs::job;
use crate::support::postgres::Pg;
use crate::support::{SqlDb as _, TestDb as _, eventually};

/// A change that a later release could make: a column, and its value for all jobs.
const A_COLUMN: Migration = Migration {
    version: 2,
    name: "a column",
    min_compatible: 1,
    sql: "alter table {schema}.job add column extra text",
    backfill: Some(
        "update {schema}.job set extra = 'x'
         where seq in (select seq from {schema}.job where queue = 'elsewhere' and extra is null order by rank, seq limit 1000)",
    ),
};

/// How many jobs the table has, besides those whose rows are filled in: few, or as many as `JOBWRIGHT_MIGRATE_ROWS` says. With ten million,
/// the test takes some minutes and two gigabytes.
fn rows() -> u64 {
    std::env::var("JOBWRIGHT_MIGRATE_ROWS").map_or(10_000, |rows| rows.parse().expect("a number of rows"))
}

/// A change of the table of jobs has to wait for everybody who reads it, and whoever comes later waits behind it. So it waits for a moment
/// only, lets the others pass, and tries again. Rows are filled in while the service goes on: this build knows nothing of the column, and its
/// prepared statements stay good.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_change_waits_for_a_long_reader_without_blocking_others() {
    let Some(db) = Pg::<false>::with_ledger().await.map(Arc::new) else { return };
    for (queue, rows) in [("elsewhere", 10_000), ("large", rows())] {
        // In parts: the server cuts off what takes longer than a minute.
        for part in (0..rows).step_by(500_000).map(|done| (rows - done).min(500_000)) {
            db.raw(&format!(
                "insert into {{schema}}.job (id, kind, queue, rank, max_attempts, payload)
                 select gen_random_uuid(), 'kind', '{queue}', 0, 3, '1' from generate_series(1, {part})"
            ))
            .await;
        }
    }
    let messages = db.messages().await;
    let executor = CommandExecutor::builder(messages.clone())
        .config(lease(10))
        .handle("kind", |_| async { Ok(Outcome::Done) })
        .queue("default", 10)
        .start()
        .await
        .unwrap();
    let (mut sent, mut slowest) = (0, Duration::ZERO);
    let mut send = async || {
        let start = Instant::now();
        messages.send(job()).await.unwrap();
        (sent, slowest) = (sent + 1, slowest.max(start.elapsed()));
    };
    send().await;
    let reader = db.hold("select count(*) from {schema}.job").await;
    let later = db.clone();
    let migrating = tokio::spawn(async move { later.migrate_with(&[A_COLUMN]).await });
    // Until the change has waited for the reader three times, and let others pass in between.
    let (mut tries, mut was_waiting) = (0, false);
    let begun = Instant::now();
    while tries < 3 {
        assert!(begun.elapsed() < PATIENCE && !migrating.is_finished(), "{tries} tries");
        send().await;
        let is_waiting = reader.waiting().await > 0;
        tries += u32::from(was_waiting && !is_waiting);
        was_waiting = is_waiting;
    }
    reader.release().await;
    // The change is there for all to see before its rows are filled in.
    let client = db.client().await;
    let (mut was_unfilled, mut is_filled) = (false, None);
    while is_filled != Some(true) {
        send().await;
        let row = client.query_opt("select is_filled from migration where name = 'a column'", &[]).await.unwrap();
        is_filled = row.map(|row| row.get::<_, bool>(0));
        was_unfilled |= is_filled == Some(false);
    }
    assert!(was_unfilled, "all rows were filled in with the change");
    assert!(migrating.await.unwrap().unwrap().last().unwrap().applied_at.is_some());
    let left = "select count(*) from job where queue = 'elsewhere' and extra is null";
    assert_eq!(client.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 0);
    // A send waits for one try at most: half a second, and what a busy machine adds. Without a limit it would have waited for the reader.
    eprintln!("{} jobs in the table, {sent} sent meanwhile; the slowest send took {slowest:?}", rows());
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    eventually(PATIENCE, async || executor.stats().done == sent).await;
    let stats = executor.shutdown(Duration::from_secs(5)).await.unwrap();
    assert_eq!((stats.failed, stats.refused, stats.leases_lost), (0, 0, 0));
}

/// The schema's name in the recorded statements.
const SCHEMA: &str = "THE_SCHEMA";

/// A build runs on the schema of the next one, so each statement of each release still fits, as those of this build do.
/// `JOBWRIGHT_RECORD_STATEMENTS=1` records the latter, which is a step of a release.
#[tokio::test]
async fn statements_of_earlier_releases_still_fit() {
    let mut own = String::new();
    for (name, sql, types) in postgres_statements(SCHEMA, Keep::All) {
        writeln!(own, "--- {name} [{}]\n{sql}", types.join(" ")).unwrap();
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/executor/released");
    if std::env::var_os("JOBWRIGHT_RECORD_STATEMENTS").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(concat!(env!("CARGO_PKG_VERSION"), ".sql")), &own).unwrap();
    }
    // There is no folder before the first release.
    let files = folder.read_dir().into_iter().flatten().map(|file| file.unwrap().path());
    let released = files.map(|path| (path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
    let builds: Vec<_> = released.chain([("this build".to_owned(), own)]).collect();
    let Some(db) = Pg::<false>::create().await else { return };
    let client = db.client().await;
    for (build, text) in builds {
        let text = text.replace(SCHEMA, db.schema());
        let mut checked = 0;
        for statement in text.split("--- ").skip(1) {
            let (head, sql) = statement.split_once("]\n").unwrap();
            let (name, types) = head.split_once(" [").unwrap();
            let types: Vec<_> = types.split_whitespace().collect();
            let types = if types.is_empty() { String::new() } else { format!("({})", types.join(", ")) };
            let fits = client.batch_execute(&format!("prepare released {types} as {sql}; deallocate released")).await;
            assert!(fits.is_ok(), "{name} of {build}: {fits:?}\n{sql}");
            checked += 1;
        }
        assert!(checked > 100, "only {checked} statements of {build} were found");
    }
}
