//! Databases with transactions of sqlx 0.8.

#[path = "sqlx/mod.rs"]
pub(crate) mod db;

use jobwright::{DatabaseConfig, MessageServices};

pub(crate) use self::db::SqlxDb;
pub(crate) use jobwright::sqlx_0_8::Sqlx;
pub(crate) use sqlx_0_8 as sqlx;

pub(crate) async fn services(pool: sqlx::PgPool, config: &DatabaseConfig) -> jobwright::Result<MessageServices<Sqlx>> {
    MessageServices::sqlx_0_8(pool, config).await
}

/// The text of a statement that is made at run time.
pub(crate) fn text(sql: &str) -> &str {
    sql
}
