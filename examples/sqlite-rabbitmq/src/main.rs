//! A shop on SQLite and RabbitMQ.
//!
//! ```sh
//! export AMQP_URL=amqp://guest:guest@localhost/%2F          # it works without, but prints nothing
//! cargo run -p jobwright-example-sqlite-rabbitmq serve
//! cargo run -p jobwright-example-sqlite-rabbitmq order Ada 1999                       # from another terminal
//! python3 examples/python/worker.py printer                                           # prints
//! ```

use jobwright::{BrokerConfig, DatabaseConfig};
use jobwright_example_sqlite_rabbitmq::{Error, connect, place, serve};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<(), Error> {
    // The client of RabbitMQ reports as an error what is none: that a queue is not there before it is declared.
    tracing_subscriber::fmt().with_env_filter("info,lapin=off").init();
    let broker = std::env::var("AMQP_URL").map_or_else(|_| BrokerConfig::default(), BrokerConfig::url);
    let messages = connect(&DatabaseConfig::url("sqlite:shop.db"), &broker).await?;

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve"] => {
            let mut terminate = signal(SignalKind::terminate())?;
            let stop = async move {
                tokio::select! {
                    _ = tokio::signal::ctrl_c() => {}
                    _ = terminate.recv() => {}
                }
            };
            let stats = serve(messages, stop).await?;
            println!("{} jobs done, {} of them came over the broker", stats.done, stats.delivered);
        }
        ["order", customer, cents] => {
            // This process sends one job. Without `prepare`, an executor may claim it from the table.
            messages.prepare("default").await;
            let placed = place(&messages, customer, cents.parse()?).await?;
            println!("order {}: {:?}", placed.order, placed.went);
            messages.wake_ups_sent().await;
        }
        _ => return Err("usage: serve | order CUSTOMER CENTS".into()),
    }
    Ok(())
}
