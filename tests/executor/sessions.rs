//! What user code sets in the session of a connection must not reach the next user of that connection.

use std::collections::BTreeSet;
use std::time::Duration;

use jobwright::internal::engine::UnitOfWork as _;
use jobwright::{CommandExecutor, MessageServices, NewJob, Outcome, Postgres};

use crate::support::environment::{World as _, at_once, lease};
use crate::support::postgres::Pg;
use crate::support::{TestDb as _, eventually};

/// All that a session remembers between transactions, but for prepared statements: a setting that a later PostgreSQL has is compared too.
const SESSION: &str = "
    select name || ' = ' || setting from pg_settings where name not like 'transaction\\_%'
    union all select 'app.tenant = ' || coalesce(nullif(current_setting('app.tenant', true), ''), 'none')
    union all select 'listens on ' || channel from pg_listening_channels() as channel
    union all select 'has the lock ' || objid from pg_locks where pid = pg_backend_pid() and locktype = 'advisory'
    union all select 'has the relation ' || relname from pg_class where relnamespace = pg_my_temp_schema()
    union all select 'has the cursor ' || name from pg_cursors where name <> ''
    union all select 'is ' || current_user || ' of ' || session_user";

const SPOIL: &str = "
    set search_path = tenant_a; create temp table leak (x int); select pg_advisory_lock(42); set app.tenant = 'acme';
    set default_transaction_read_only = on; set timezone = 'Asia/Tokyo'; listen chan; set statement_timeout = '7s'; set enable_indexscan = off;
    declare kept cursor with hold for select 1; set role pg_read_all_stats";

/// A process with a single connection for contexts.
async fn alone(db: &Pg<false>) -> MessageServices<Postgres> {
    MessageServices::postgres(&db.config().max_connections(1)).await.unwrap()
}

/// Returns the server process and the session of the connection.
async fn session(messages: &MessageServices<Postgres>) -> (i32, BTreeSet<String>) {
    let mut cx = messages.begin();
    let transaction = cx.transaction().await.unwrap();
    let process = transaction.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    let rows = transaction.query(SESSION, &[]).await.unwrap();
    let session = rows.iter().map(|row| row.get(0)).collect();
    cx.commit().await.unwrap();
    (process, session)
}

/// However the transaction ends. The connection is the same one, so that statements that were prepared on it stay so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_user_finds_the_session_of_a_new_connection() {
    let Some(db) = Pg::<false>::create().await else { return };
    let messages = alone(&db).await;
    let fresh = session(&messages).await;
    for ends in ["commit", "rollback", "drop", "lent"] {
        let mut cx = messages.begin();
        let transaction = cx.transaction().await.unwrap();
        if ends == "lent" {
            transaction.lend().batch_execute(SPOIL).await.unwrap();
        } else {
            transaction.batch_execute(SPOIL).await.unwrap();
        }
        match ends {
            "commit" | "lent" => cx.commit().await.unwrap(),
            "rollback" => cx.rollback().await.unwrap(),
            _ => drop(cx),
        }
        let next = session(&messages).await;
        let differs: Vec<_> = fresh.1.symmetric_difference(&next.1).collect();
        assert!(differs.is_empty(), "after {ends}: {differs:?}");
        assert_eq!(fresh.0, next.0, "after {ends}: it is another connection");
    }
}

/// Its transaction has ended by then, which its owner is told. The connection is closed, and the next user gets another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_cannot_be_reset_undoes_no_commit() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = alone(&db).await;
    let other = db.client().await;
    for ends in ["commit", "rollback", "drop"] {
        let (spoiled, _) = session(&messages).await;
        let mut cx = messages.begin();
        let transaction = cx.transaction().await.unwrap();
        transaction.batch_execute("create temp table leak (x int); commit; begin").await.unwrap();
        let leak = "select pg_my_temp_schema()::regnamespace || '.leak'";
        let leak: String = transaction.query_one(leak, &[]).await.unwrap().get(0);
        other.batch_execute(&format!("begin; lock table {leak} in access share mode")).await.unwrap();
        Pg::<false>::note(transaction, ends).await.unwrap();
        match ends {
            "commit" => cx.commit().await.unwrap(),
            "rollback" => cx.rollback().await.unwrap(),
            _ => drop(cx),
        }
        let (next, _) = session(&messages).await;
        other.batch_execute("rollback").await.unwrap();
        assert_ne!(spoiled, next, "after {ends}: the session was used again");
    }
    assert_eq!(db.ledger().await.into_keys().collect::<Vec<_>>(), ["commit"]);
}

/// A session whose transactions wait by default until they can see a safe snapshot, while another one writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_waits_for_no_other_transaction() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = alone(&db).await;
    let (spoiled, fresh) = session(&messages).await;
    let writer = db.client().await;
    writer
        .batch_execute("begin isolation level serializable; insert into ledger (line) values ('other')")
        .await
        .unwrap();
    let mut cx = messages.begin();
    let transaction = cx.transaction().await.unwrap();
    Pg::<false>::note(transaction, "kept").await.unwrap();
    let defaults = "set session characteristics as transaction isolation level serializable, read only, deferrable";
    transaction.batch_execute(defaults).await.unwrap();
    cx.commit().await.unwrap();
    let next = session(&messages).await;
    assert_eq!(next, (spoiled, fresh), "the session was not reset");
    writer.batch_execute("rollback").await.unwrap();
    assert_eq!(db.ledger().await.into_keys().collect::<Vec<_>>(), ["kept"]);
}

/// Others may wait for what the session holds: also where the connection has no next user.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_locks_of_a_session_end_soon_when_nothing_uses_it_again() {
    let Some(db) = Pg::<false>::create().await else { return };
    let messages = alone(&db).await;
    let (observer, key) = (db.client().await, i64::from(std::process::id()));
    for ends in ["commit", "rollback", "drop"] {
        let mut cx = messages.begin();
        cx.transaction().await.unwrap().execute("select pg_advisory_lock($1)", &[&key]).await.unwrap();
        match ends {
            "commit" => cx.commit().await.unwrap(),
            "rollback" => cx.rollback().await.unwrap(),
            _ => drop(cx),
        }
        eventually(Duration::from_secs(10), async || {
            let free = observer.query_one("select pg_try_advisory_lock($1)", &[&key]).await.unwrap();
            free.get::<_, bool>(0)
        })
        .await;
        observer.execute("select pg_advisory_unlock($1)", &[&key]).await.unwrap();
    }
}

/// The end of the second job needs a transaction that may write, and statements that are prepared or can be prepared again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_does_not_suffer_from_the_one_before_it() {
    let Some(db) = Pg::<false>::with_ledger().await else { return };
    let messages = alone(&db).await;
    let executor = CommandExecutor::builder(messages.clone())
        .config(lease(30).poll_interval(Duration::from_millis(100)))
        .queue("default", 1)
        .handle_with("runs", |cx| {
            Box::pin(async move {
                let sql: String = cx.job().payload.decode()?;
                cx.transaction().await?.batch_execute(&sql).await?;
                Ok(Outcome::Done)
            })
        })
        .kind_options("runs", at_once())
        .start()
        .await
        .unwrap();
    let innocent = "insert into ledger (line) select current_setting('search_path')";
    for sql in [innocent, SPOIL.split("declare").next().unwrap(), innocent] {
        let sql = sql.trim().trim_end_matches(';');
        messages.send(NewJob::json("runs", &sql)).await.unwrap();
        db.drained().await;
    }
    let stats = executor.stats();
    assert_eq!((stats.done, stats.failed), (3, 0));
    assert_eq!(db.ledger().await.into_values().collect::<Vec<_>>(), [2], "one of them wrote in another place");
    // This one takes away what its own end needs, and pays with an attempt at most. The next one pays nothing.
    messages.send(NewJob::json("runs", &"deallocate all")).await.unwrap();
    db.drained().await;
    let failed = executor.stats().failed;
    messages.send(NewJob::json("runs", &innocent)).await.unwrap();
    db.drained().await;
    assert!(failed <= 1 && executor.stats().failed == failed, "{failed}");
    executor.shutdown(Duration::ZERO).await.unwrap();
}

/// The file has one connection that writes, which handlers and the engine use in turn.
#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_user_of_a_file_finds_the_connection_as_it_was() {
    use crate::support::sqlite::SqliteDb;

    const LOOK: &str = "
        select group_concat(line, ' ') from (
            select 'query_only ' || query_only as line from pragma_query_only
            union all select 'foreign_keys ' || foreign_keys from pragma_foreign_keys
            union all select 'ignore_check_constraints ' || ignore_check_constraints from pragma_ignore_check_constraints
            union all select 'recursive_triggers ' || recursive_triggers from pragma_recursive_triggers
            union all select 'like ' || ('a' like 'A')
            union all select 'database ' || name from pragma_database_list where name <> 'temp'
            union all select 'temporary ' || name from temp.sqlite_schema)";
    let db = SqliteDb::with_ledger().await.unwrap();
    let messages = db.messages().await;
    let look = async || {
        let mut cx = messages.begin();
        let found: String = cx.transaction().await.unwrap().query_row(LOOK, [], |row| row.get(0)).await.unwrap();
        cx.commit().await.unwrap();
        found
    };
    let fresh = look().await;
    for ends in ["commit", "rollback", "drop"] {
        let mut cx = messages.begin();
        let spoil = |connection: &rusqlite::Connection| {
            connection.execute_batch(
                "create temp table jobwright_job (x); create temp trigger t after insert on jobwright_job begin select 1; end;
                 create temp view v as select 1; pragma ignore_check_constraints = on; pragma recursive_triggers = on;
                 pragma case_sensitive_like = on; attach ':memory:' as other; pragma query_only = on",
            )
        };
        cx.transaction().await.unwrap().call(spoil).await.unwrap();
        match ends {
            "commit" => cx.commit().await.unwrap(),
            "rollback" => cx.rollback().await.unwrap(),
            _ => drop(cx),
        }
        assert_eq!(look().await, fresh, "after {ends}");
        // The engine's own writes go to its own tables.
        messages.send(NewJob::json("kind", &())).await.unwrap();
    }
    assert_eq!(db.jobs().all().await.len(), 3);
}
