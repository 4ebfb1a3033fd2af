//! Work by SQL: programs in any language take jobs with functions of PostgreSQL, and end them in transactions of their own.

mod cancelling;
mod documents;
mod ending;
mod keeping;
mod locks;
mod rights;
mod seen;
mod taking;
mod together;

use jobwright::{JobId, NewJob};
use serde_json::Value;
use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{Client, Row};
use uuid::Uuid;

use crate::support::postgres::Pg;
use crate::support::{Jobs, TestDb};

/// The SQLSTATE of a call about a job that is no longer handed out under its token.
const LATE: &str = "JW002";
/// That of a call about a job that was cancelled.
const CANCELLED: &str = "JW003";
const REFUSED: &str = "22023";
const NO_RIGHT: &str = "42501";

/// A schema, and a session of a program that works by SQL.
struct Site {
    db: Pg<false>,
    jobs: Jobs,
    worker: Client,
}

/// A job that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Taken {
    id: Uuid,
    token: Uuid,
}

impl Taken {
    fn id(self) -> JobId {
        JobId::from(self.id)
    }

    /// The two arguments by which each call names the job.
    fn names(&self) -> [&(dyn ToSql + Sync); 2] {
        [&self.id, &self.token]
    }
}

impl Site {
    async fn create() -> Option<Self> {
        let db = Pg::<false>::create().await?;
        let worker = db.client().await;
        Some(Self { jobs: db.jobs(), worker, db })
    }

    /// Takes jobs of `default`, as the session that the site has.
    async fn take(&self, arguments: &str) -> Vec<Row> {
        take(&self.worker, arguments).await.unwrap()
    }

    /// Sends a job and takes it.
    async fn taken(&self, job: NewJob) -> Taken {
        let id = self.jobs.send(job).await;
        let taken = self.take("1").await.iter().map(read).collect::<Vec<_>>();
        assert_eq!(taken.iter().map(|taken| taken.id()).collect::<Vec<_>>(), [id], "another job was in the way");
        taken[0]
    }
}

/// A column of JSON.
#[derive(Debug, PartialEq)]
struct Json(Value);

impl FromSql<'_> for Json {
    fn from_sql(_: &Type, raw: &[u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        // A byte with the version of the format comes first.
        Ok(Self(serde_json::from_slice(&raw[1..])?))
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::JSONB
    }
}

fn read(row: &Row) -> Taken {
    Taken { id: row.get("id"), token: row.get("token") }
}

/// Calls `take` for the queue `default` with these further arguments. Returns the rows, or the SQLSTATE and the message of the error.
async fn take(client: &Client, arguments: &str) -> Result<Vec<Row>, (String, String)> {
    client
        .query(&format!("select * from take('default', 'test', {arguments})"), &[])
        .await
        .map_err(|error| told(&error))
}

/// Calls a function about one job, with these further arguments. Returns its answer as text.
async fn call(client: &Client, function: &str, of: Taken, arguments: &str) -> Result<Option<String>, (String, String)> {
    let sql = format!("select {function}($1, $2{arguments})::text");
    client.query_one(&sql, &of.names()).await.map(|row| row.get(0)).map_err(|error| told(&error))
}

/// Calls a function about one job that must be accepted.
async fn accepted(client: &Client, function: &str, of: Taken, arguments: &str) {
    assert_eq!(call(client, function, of, arguments).await, Ok(Some("true".to_owned())), "{function}");
}

/// Calls a function about one job, which must raise this error. Also asks by its form that answers.
async fn refused(client: &Client, function: &str, of: Taken, arguments: &str, state: &str) {
    let answer = call(client, function, of, &format!("{arguments}, strict => false")).await;
    let nothing = if function == "extend" { None } else { Some("false".to_owned()) };
    assert_eq!(answer, Ok(nothing), "{function}");
    let (found, message) = call(client, function, of, arguments).await.expect_err(function);
    assert_eq!(found, state, "{function}: {message}");
    let name = of.id.to_string();
    assert!(message.starts_with(&format!("jobwright.{function}: ")) && message.contains(&name), "{message}");
    assert!(!message.contains(&of.token.to_string()), "{message}");
}

fn told(error: &tokio_postgres::Error) -> (String, String) {
    let error = error.as_db_error().unwrap_or_else(|| panic!("{error}"));
    (error.code().code().to_owned(), error.message().to_owned())
}
