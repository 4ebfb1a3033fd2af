//! SQL on a database that is chosen at run time: the text is the same, the calls are those of the drivers.
//!
//! A program that knows its database needs none of this: `MessageServices::postgres` and `MessageServices::sqlite` return services whose
//! contexts have the driver's own transaction.

use std::fmt;

use jobwright::AnyTransaction;
use tokio_postgres::types::ToSql;

/// A parameter, in the order of `$1`, `$2` …
#[allow(dead_code, reason = "one of the examples has parameters of its own only")]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Number(i64),
    Text(&'a str),
}

/// Runs one statement. Returns the number of rows it changed.
pub(crate) async fn execute(tx: &mut AnyTransaction, sql: &str, params: &[Value<'_>]) -> Result<u64, SqlError> {
    match tx {
        AnyTransaction::Postgres(tx) => Ok(tx.execute(sql, &for_postgres(params)).await?),
        AnyTransaction::Sqlite(tx) => Ok(tx.execute(sql, rusqlite::params_from_iter(for_sqlite(params))).await? as u64),
        _ => Err(SqlError::UnknownDatabase),
    }
}

/// Runs a query. Returns the first column of all rows, which must be text.
pub(crate) async fn texts(tx: &mut AnyTransaction, sql: &str, params: &[Value<'_>]) -> Result<Vec<String>, SqlError> {
    match tx {
        AnyTransaction::Postgres(tx) => {
            let rows = tx.query(sql, &for_postgres(params)).await?;
            Ok(rows.iter().map(|row| row.get(0)).collect())
        }
        AnyTransaction::Sqlite(tx) => {
            let (sql, params) = (sql.to_owned(), for_sqlite(params));
            let read = move |connection: &rusqlite::Connection| {
                let mut statement = connection.prepare_cached(&sql)?;
                let rows = statement.query_map(rusqlite::params_from_iter(params), |row| row.get(0))?;
                rows.collect()
            };
            Ok(tx.call(read).await?)
        }
        _ => Err(SqlError::UnknownDatabase),
    }
}

fn for_postgres<'a>(params: &'a [Value<'a>]) -> Vec<&'a (dyn ToSql + Sync)> {
    let param = |value: &'a Value<'a>| -> &'a (dyn ToSql + Sync) {
        match value {
            Value::Number(number) => number,
            Value::Text(text) => text,
        }
    };
    params.iter().map(param).collect()
}

fn for_sqlite(params: &[Value<'_>]) -> Vec<rusqlite::types::Value> {
    let param = |value: &Value<'_>| match *value {
        Value::Number(number) => number.into(),
        Value::Text(text) => text.to_owned().into(),
    };
    params.iter().map(param).collect()
}

/// A refused statement. It is a separate type, so that `?` works in handlers too.
#[derive(Debug)]
pub(crate) enum SqlError {
    Postgres(tokio_postgres::Error),
    Sqlite(jobwright::Error),
    /// A later version of jobwright may have stores that this file has no calls for.
    UnknownDatabase,
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The driver's own text is only "db error".
            Self::Postgres(error) => {
                f.write_str(error.as_db_error().map_or(&error.to_string(), |error| error.message()))
            }
            Self::Sqlite(error) => error.fmt(f),
            Self::UnknownDatabase => f.write_str("there are no calls for this database"),
        }
    }
}

impl std::error::Error for SqlError {}

impl From<tokio_postgres::Error> for SqlError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error)
    }
}

impl From<jobwright::Error> for SqlError {
    fn from(error: jobwright::Error) -> Self {
        Self::Sqlite(error)
    }
}
