//! Databases with transactions of sqlx 0.9.

#[path = "sqlx/mod.rs"]
pub(crate) mod db;

use jobwright::{DatabaseConfig, MessageServices};

pub(crate) use self::db::SqlxDb;
pub(crate) use jobwright::sqlx_0_9::Sqlx;
pub(crate) use sqlx_0_9 as sqlx;

pub(crate) async fn services(pool: sqlx::PgPool, config: &DatabaseConfig) -> jobwright::Result<MessageServices<Sqlx>> {
    MessageServices::sqlx_0_9(pool, config).await
}

/// The text of a statement that is made at run time.
pub(crate) fn text(sql: &str) -> sqlx::AssertSqlSafe<&str> {
    sqlx::AssertSqlSafe(sql)
}
