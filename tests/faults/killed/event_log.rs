//! The event log: handlers write when they start and end, outside their transactions and within. Triggers on the engine's own tables write which node
//! owned what, and which nodes the database regarded as dead.

use std::time::Duration;

use futures_util::future::BoxFuture;
use jobwright::Store;
use jobwright::{DatabaseConfig, JobError};

use crate::support::TestDb;
use crate::support::environment::World;
use crate::support::postgres::Pg;
#[cfg(feature = "sqlite")]
use crate::support::sqlite::SqliteDb;

/// The events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// By the handler, at once: its first and its last act outside its transaction; `Failed` is the last one too.
    Start,
    End,
    Failed,
    /// By the handler, with its transaction: its job took effect, and another job was sent.
    Done,
    Sent,
    /// By triggers: an attempt began or was taken from its node; a node was declared dead.
    Claim,
    Lost,
    Death,
}

impl What {
    const ALL: [Self; 8] =
        [Self::Start, Self::End, Self::Failed, Self::Done, Self::Sent, Self::Claim, Self::Lost, Self::Death];

    const fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::End => "end",
            Self::Failed => "failed",
            Self::Done => "done",
            Self::Sent => "sent",
            Self::Claim => "claim",
            Self::Lost => "lost",
            Self::Death => "death",
        }
    }
}

/// A line to be written. The database adds the time, so that all lines use one clock.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// As hex without dashes, in both stores.
    pub(super) job: String,
    pub(super) version: i64,
    pub(super) what: What,
    pub(super) about: Option<String>,
}

/// A line as it is read.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) line: Line,
    pub(super) node: Option<i64>,
    /// Microseconds since 1970. Rounded down to a millisecond on the embedded store, for all writers alike.
    pub(super) at: i64,
}

type Transaction<W> = <<W as TestDb>::Store as Store>::Transaction;

pub(super) trait Book: World {
    /// A connection that bypasses the store.
    type Pen: Clone + Send + Sync + 'static;

    /// Creates the event log.
    async fn open_book(&self);

    async fn pen(config: &DatabaseConfig) -> Self::Pen;

    /// Writes at once.
    fn write(pen: &Self::Pen, line: Line) -> BoxFuture<'static, ()>;

    /// Writes if the transaction commits.
    fn enter(transaction: &mut Transaction<Self>, line: Line) -> BoxFuture<'_, Result<(), JobError>>;

    /// Reads all lines in one statement, so that they are consistent.
    fn read(pen: &Self::Pen) -> BoxFuture<'static, Vec<Entry>>;

    /// Returns how many jobs there are in all states, and how many permits are held.
    fn left(pen: &Self::Pen) -> BoxFuture<'static, (i64, i64)>;
}

fn entry(job: String, version: i64, node: Option<i64>, word: &str, at: i64, about: Option<String>) -> Entry {
    let what = What::ALL.into_iter().find(|what| what.word() == word).unwrap();
    Entry { line: Line { job, version, what, about }, node, at }
}

const READ: &str = "select job, version, node, what, at, about from past";

/// A claim's `about` says whether a delivery made it, a death's by how much it came after the end of the lease.
const POSTGRES: &str = "
    create table {schema}.past (
        job text not null, version int8 not null, node int8, what text not null, about text,
        at int8 not null default (extract(epoch from clock_timestamp()) * 1000000)::int8
    );
    create function {schema}.past_claim() returns trigger language plpgsql as $$ begin
        insert into {schema}.past (job, version, node, what, about)
        values (replace(new.id::text, '-', ''), new.version, new.lock_owner, 'claim',
                case when old.visible_at > clock_timestamp() then 'delivered' end);
        return null;
    end $$;
    create function {schema}.past_lost() returns trigger language plpgsql as $$ begin
        insert into {schema}.past (job, version, node, what)
        values (replace(old.id::text, '-', ''), old.version, old.lock_owner, 'lost');
        return null;
    end $$;
    create function {schema}.past_death() returns trigger language plpgsql as $$ begin
        insert into {schema}.past (job, version, node, what, about)
        values ('', 0, new.id, 'death', (extract(epoch from new.dead_at - new.expires_at) * 1000000)::int8::text);
        return null;
    end $$;
    create trigger past_claim after update on {schema}.job for each row
        when (old.lock_owner is null and new.lock_owner is not null) execute function {schema}.past_claim();
    create trigger past_born after insert on {schema}.job for each row
        when (new.lock_owner is not null) execute function {schema}.past_claim();
    create trigger past_lost after update on {schema}.job for each row
        when (old.lock_owner is not null and new.lock_owner is distinct from old.lock_owner)
        execute function {schema}.past_lost();
    create trigger past_death after update on {schema}.node for each row
        when (old.dead_at is null and new.dead_at is not null) execute function {schema}.past_death();
";

impl Book for Pg<false> {
    type Pen = std::sync::Arc<tokio_postgres::Client>;

    async fn open_book(&self) {
        self.raw(POSTGRES).await;
    }

    async fn pen(config: &DatabaseConfig) -> Self::Pen {
        let (client, connection) = tokio_postgres::connect(config.url.expose(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        std::sync::Arc::new(client)
    }

    fn write(pen: &Self::Pen, line: Line) -> BoxFuture<'static, ()> {
        let pen = pen.clone();
        Box::pin(async move {
            insert(&pen, &line).await.unwrap();
        })
    }

    fn enter(transaction: &mut Transaction<Self>, line: Line) -> BoxFuture<'_, Result<(), JobError>> {
        Box::pin(async move {
            let sql = "insert into past (job, version, what, about) values ($1, $2, $3, $4)";
            transaction.execute(sql, &[&line.job, &line.version, &line.what.word(), &line.about]).await?;
            Ok(())
        })
    }

    fn read(pen: &Self::Pen) -> BoxFuture<'static, Vec<Entry>> {
        let pen = pen.clone();
        Box::pin(async move {
            let rows = pen.query(READ, &[]).await.unwrap();
            rows.iter()
                .map(|row| entry(row.get(0), row.get(1), row.get(2), row.get(3), row.get(4), row.get(5)))
                .collect()
        })
    }

    fn left(pen: &Self::Pen) -> BoxFuture<'static, (i64, i64)> {
        let pen = pen.clone();
        Box::pin(async move {
            let row = pen.query_one("select (select count(*) from jobs), (select count(*) from permit)", &[]).await;
            let row = row.unwrap();
            (row.get(0), row.get(1))
        })
    }
}

async fn insert(client: &tokio_postgres::Client, line: &Line) -> Result<u64, tokio_postgres::Error> {
    let sql = "insert into past (job, version, what, about) values ($1, $2, $3, $4)";
    client.execute(sql, &[&line.job, &line.version, &line.what.word(), &line.about]).await
}

#[cfg(feature = "sqlite")]
const SQLITE: &str = "
    create table past (
        job text not null, version integer not null, node integer, what text not null, about text,
        at integer not null default (cast(unixepoch('subsec') * 1000000 as integer))
    );
    create trigger past_claim after update on jobwright_job when old.lock_owner is null and new.lock_owner is not null
    begin
        insert into past (job, version, node, what) values (lower(hex(new.id)), new.version, new.lock_owner, 'claim');
    end;
    create trigger past_born after insert on jobwright_job when new.lock_owner is not null
    begin
        insert into past (job, version, node, what) values (lower(hex(new.id)), new.version, new.lock_owner, 'claim');
    end;
    create trigger past_lost after update on jobwright_job
    when old.lock_owner is not null and new.lock_owner is not old.lock_owner and new.state in ('waiting', 'blocked')
    begin
        insert into past (job, version, node, what) values (lower(hex(old.id)), old.version, old.lock_owner, 'lost');
    end;
    -- The database keeps no lease: a process that ended is dead at once, and one that hangs after a lease without a sign of life.
    create trigger past_death after update on jobwright_node when old.dead_at is null and new.dead_at is not null
    begin
        insert into past (job, version, node, what, about)
        values ('', 0, new.id, 'death', '0');
    end;
";

#[cfg(feature = "sqlite")]
type Shared = std::sync::Arc<std::sync::Mutex<rusqlite::Connection>>;

/// Runs on the connection where blocking is allowed, and retries as often as the engine does while another process writes: with longer pauses it
/// would starve.
#[cfg(feature = "sqlite")]
async fn on<T: Send + 'static>(
    pen: Shared,
    work: impl Fn(&rusqlite::Connection) -> rusqlite::Result<T> + Send + 'static,
) -> T {
    let run = move || {
        let connection = pen.lock().unwrap();
        loop {
            match work(&connection) {
                Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                done => return done.unwrap(),
            }
        }
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[cfg(feature = "sqlite")]
const INSERT: &str = "insert into past (job, version, what, about) values (?1, ?2, ?3, ?4)";

#[cfg(feature = "sqlite")]
impl Book for SqliteDb {
    type Pen = Shared;

    async fn open_book(&self) {
        self.connection().execute_batch(SQLITE).unwrap();
    }

    async fn pen(config: &DatabaseConfig) -> Self::Pen {
        let connection = rusqlite::Connection::open(config.url.expose().trim_start_matches("sqlite:")).unwrap();
        connection.busy_timeout(Duration::ZERO).unwrap();
        // The death of a process loses nothing of it.
        connection.execute_batch("pragma synchronous = off").unwrap();
        std::sync::Arc::new(std::sync::Mutex::new(connection))
    }

    fn write(pen: &Self::Pen, line: Line) -> BoxFuture<'static, ()> {
        let written = on(pen.clone(), move |connection| {
            connection.execute(INSERT, (&line.job, line.version, line.what.word(), &line.about)).map(drop)
        });
        Box::pin(written)
    }

    fn enter(transaction: &mut Transaction<Self>, line: Line) -> BoxFuture<'_, Result<(), JobError>> {
        Box::pin(async move {
            transaction.execute(INSERT, (line.job, line.version, line.what.word(), line.about)).await?;
            Ok(())
        })
    }

    fn read(pen: &Self::Pen) -> BoxFuture<'static, Vec<Entry>> {
        Box::pin(on(pen.clone(), |connection| {
            let mut query = connection.prepare_cached(READ)?;
            let rows = query.query_map([], |row| {
                let word: String = row.get(3)?;
                Ok(entry(row.get(0)?, row.get(1)?, row.get(2)?, &word, row.get(4)?, row.get(5)?))
            })?;
            rows.collect()
        }))
    }

    fn left(pen: &Self::Pen) -> BoxFuture<'static, (i64, i64)> {
        let sql = "select (select count(*) from jobwright_jobs), (select count(*) from jobwright_permit)";
        Box::pin(on(pen.clone(), move |connection| connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))))
    }
}
