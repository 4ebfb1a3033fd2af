//! Runs the statements of this store on a connection of sqlx.

use std::sync::Arc;

use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull as IsNullValue, ToSql, Type as PgType};

use super::probed::Probed;
use super::sqlx::encode::{Encode, IsNull};
use super::sqlx::error::BoxDynError;
use super::sqlx::postgres::types::Oid;
use super::sqlx::postgres::{
    PgArgumentBuffer, PgArguments, PgDatabaseError, PgRow, PgSeverity, PgTypeInfo, PgValueFormat,
};
use super::sqlx::{self, Arguments as _, Executor as _, PgConnection, Row as _, Type, TypeInfo as _, ValueRef as _};
use crate::error::{Error, ErrorKind, Result};
use crate::store::postgres::driver::{Columns, Driver};
use crate::store::postgres::driver_error::{Answer, classify_answer};
use crate::store::postgres::error::ErrorContext;
use crate::store::postgres::shared::Shared;
use crate::store::postgres::statements::Statement;

/// A transaction on a connection of sqlx.
pub(super) struct SqlxConnection<'t> {
    pub(super) shared: &'t Arc<Shared>,
    pub(super) connection: &'t mut PgConnection,
    /// There if a context commits it.
    pub(super) probed: Option<&'t mut Probed>,
}

impl Driver for SqlxConnection<'_> {
    type Row = PgRow;

    async fn run(
        &mut self,
        what: &'static str,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<PgRow>> {
        let context = ErrorContext { what, label: &self.shared.label };
        let mut arguments = PgArguments::default();
        for (value, of) in params.iter().zip(&statement.types) {
            arguments
                .add(Argument { value: *value, of })
                .map_err(|error| explain(context, sqlx::Error::Encode(error)))?;
        }
        // Unnamed behind a transaction pooler, as it is on the connections of the engine.
        let query = sqlx::query_with(super::text(&statement.sql), arguments).persistent(!self.shared.pgbouncer);
        if let Some(probed) = &mut self.probed {
            probed.asks();
        }
        let done = match timeout(self.shared.call_timeout, query.fetch_all(&mut *self.connection)).await {
            Ok(answer) => answer.map_err(|error| explain(context, error)),
            Err(_) => Err(context.timeout(self.shared.call_timeout)),
        };
        if let Some(probed) = &mut self.probed {
            probed.answered(done.as_ref().err());
        }
        done
    }
}

impl SqlxConnection<'_> {
    /// Runs statements without parameters, whose answer is of no interest.
    pub(super) async fn batch(&mut self, what: &'static str, sql: &'static str) -> Result<()> {
        let context = ErrorContext { what, label: &self.shared.label };
        timeout(self.shared.call_timeout, self.connection.execute(sql))
            .await
            .map_err(|_| context.timeout(self.shared.call_timeout))?
            .map_err(|error| explain(context, error))?;
        Ok(())
    }
}

/// A parameter, encoded by `postgres-types`.
struct Argument<'a> {
    value: &'a (dyn ToSql + Sync),
    of: &'a PgType,
}

impl Type<sqlx::Postgres> for Argument<'_> {
    fn type_info() -> PgTypeInfo {
        // Only what `produces` says counts.
        PgTypeInfo::with_oid(Oid(PgType::UNKNOWN.oid()))
    }
}

impl Encode<'_, sqlx::Postgres> for Argument<'_> {
    fn encode_by_ref(&self, to: &mut PgArgumentBuffer) -> std::result::Result<IsNull, BoxDynError> {
        let mut bytes = BytesMut::new();
        let is_null = self.value.to_sql_checked(self.of, &mut bytes)?;
        to.extend_from_slice(&bytes);
        Ok(match is_null {
            IsNullValue::Yes => IsNull::Yes,
            IsNullValue::No => IsNull::No,
        })
    }

    fn produces(&self) -> Option<PgTypeInfo> {
        Some(PgTypeInfo::with_oid(Oid(self.of.oid())))
    }
}

impl Columns for PgRow {
    fn column<'a, T: FromSql<'a>>(&'a self, name: &str) -> Result<T> {
        let unreadable = |why: BoxDynError| {
            Error::new(
                ErrorKind::Schema,
                format!("the column {name} can't be read: compare the schema (`jobwright migrate --status`)"),
            )
            .with_source(why)
        };
        let value = self.try_get_raw(name).map_err(|error| unreadable(error.into()))?;
        let of = value.type_info().oid().and_then(|oid| PgType::from_oid(oid.0));
        let of = of.filter(|of| T::accepts(of) && value.format() == PgValueFormat::Binary);
        let of = of.ok_or_else(|| unreadable(format!("its type is {}", value.type_info().name()).into()))?;
        if value.is_null() {
            return T::from_sql_null(&of).map_err(unreadable);
        }
        T::from_sql(&of, value.as_bytes().map_err(unreadable)?).map_err(unreadable)
    }
}

/// Returns the kind of an error of sqlx.
pub(crate) fn driver_kind(error: &(dyn std::error::Error + 'static)) -> Option<ErrorKind> {
    if let Some(error) = error.downcast_ref::<sqlx::Error>() {
        return Some(classify(error).0);
    }
    // The answer of a server, in an error that has lost its own: a cause, or what `anyhow` was made of.
    let said = error.downcast_ref::<Box<dyn sqlx::error::DatabaseError>>().and_then(|said| said.try_downcast_ref());
    said.or_else(|| error.downcast_ref::<PgDatabaseError>()).map(|said| classify_said(said).0)
}

fn classify_said(said: &PgDatabaseError) -> (ErrorKind, String, &'static str) {
    let is_panic = said.severity() == PgSeverity::Panic;
    classify_answer(Answer { code: &SqlState::from_code(said.code()), message: said.message(), is_panic })
}

/// Classifies an error: its kind, its reason in words, and a hint. The code is there if a server has answered.
fn classify(error: &sqlx::Error) -> (ErrorKind, String, &'static str, Option<SqlState>) {
    let (kind, hint) = match error {
        sqlx::Error::Database(said) => match said.try_downcast_ref::<PgDatabaseError>() {
            Some(said) => {
                let (kind, why, hint) = classify_said(said);
                return (kind, why, hint, Some(SqlState::from_code(said.code())));
            }
            None => (ErrorKind::Database, ""),
        },
        sqlx::Error::PoolTimedOut => (
            ErrorKind::Busy,
            "check that the server can be reached; otherwise raise `max_connections` of the application's pool, or keep transactions shorter",
        ),
        sqlx::Error::PoolClosed => (ErrorKind::Unreachable, "the application has closed its pool"),
        sqlx::Error::Configuration(_) => (ErrorKind::Config, "check the options of the application's pool"),
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => {
            (ErrorKind::Unreachable, "check that the server is up and the address is right")
        }
        _ => (ErrorKind::Database, ""),
    };
    (kind, error.to_string(), hint, None)
}

/// Explains an error of sqlx, as [`ErrorContext::explain`] does for the other driver. An outage of the application's pool is not told as one of the
/// engine's connections: they may be fine.
pub(super) fn explain(context: ErrorContext<'_>, error: sqlx::Error) -> Error {
    let nothing_sent = matches!(error, sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::Encode(_));
    let (kind, why, hint, code) = classify(&error);
    let told = context.explain_other(kind, &why, hint, code.as_ref()).with_source(error);
    if nothing_sent { told.keeping_nothing() } else { told }
}
