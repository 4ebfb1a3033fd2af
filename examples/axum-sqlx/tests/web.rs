//! The service as its clients see it, on a database of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

#[path = "../../support/web.rs"]
mod web;

use jobwright::testing::TestDatabase;
use jobwright_example_axum_sqlx as shop;

type Database = TestDatabase<jobwright::sqlx_0_8::Sqlx>;

/// Returns `None` where the tests have to do without a server.
async fn database() -> Option<Database> {
    if std::env::var("JOBWRIGHT_TEST_EMBEDDED_ONLY").is_ok_and(|value| value == "1") {
        return None;
    }
    let url = std::env::var("DATABASE_URL").expect("set DATABASE_URL");
    let db = TestDatabase::sqlx_0_8(&url).await.unwrap();
    sqlx::raw_sql(shop::SCHEMA).execute(db.messages().store().pool()).await.unwrap();
    Some(db)
}
