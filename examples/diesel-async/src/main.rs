//! Places an order through diesel-async and charges it.
//!
//! ```sh
//! DATABASE_URL=postgres://user@host/db cargo run -p jobwright-example-diesel-async
//! ```

use std::time::Duration;

use jobwright::{CommandExecutor, DatabaseConfig, MessageServices};
use jobwright_example_diesel_async::send::Error;
use jobwright_example_diesel_async::{Bank, Shop, connect, executor, is_paid, place};

#[tokio::main]
async fn main() -> Result<(), Error> {
    tracing_subscriber::fmt().with_env_filter("info").init();
    let url = std::env::var("DATABASE_URL").map_err(|_| "set DATABASE_URL to a PostgreSQL server")?;
    // The engine has connections of its own.
    let messages = MessageServices::postgres(&DatabaseConfig::url(url.clone())).await?;
    messages.migrate().await?;
    let pool = connect(&url).await?;
    let shop = || Shop { pool: pool.clone(), bank: Bank { limit: 100_000 } };

    let running = executor(CommandExecutor::builder(messages.clone()), shop()).start().await?;
    let (order, job) = place(&shop(), &messages, "Ada", 1999).await?;
    messages.wait_for_end(job, Duration::from_secs(30)).await?;
    println!("order {order} is paid: {}", is_paid(&shop(), order).await?);
    running.shutdown(Duration::from_secs(20)).await?;
    Ok(())
}
