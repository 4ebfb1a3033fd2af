//! An axum service on sqlx 0.8 that sends jobs and runs them. For sqlx 0.9, write `sqlx-0_9` in Cargo.toml, and `sqlx_0_9` here and in lib.rs.
//!
//! ```sh
//! DATABASE_URL=postgres://user@host/db cargo run -p jobwright-example-axum-sqlx
//! curl -d '{"customer": "Ada", "cents": 1999}' -H 'content-type: application/json' localhost:3000/orders
//! curl localhost:3000/orders/1
//! curl localhost:3000/jobs/readyz?verbose
//! ```

use jobwright::{DatabaseConfig, MessageServices};
use jobwright_example_axum_sqlx::{Bank, SCHEMA, run};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().with_env_filter("info").init();
    let url = std::env::var("DATABASE_URL").map_err(|_| "set DATABASE_URL to a PostgreSQL server")?;
    // Ten for the slots of the executor, and ten for requests.
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(20).connect(&url).await?;
    let messages = MessageServices::sqlx_0_8(pool.clone(), &DatabaseConfig::url(url)).await?;
    messages.migrate().await?;
    sqlx::raw_sql(SCHEMA).execute(&pool).await?;

    let mut terminate = signal(SignalKind::terminate())?;
    let stop = async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
    };
    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    run(messages, listener, Bank { limit: 100_000 }, stop).await
}
