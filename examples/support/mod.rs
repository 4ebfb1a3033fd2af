//! Shared by the examples: a scratch database that is removed afterwards. Applications of jobwright do not need it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use jobwright::{Config, DatabaseConfig, MessageServices, Store};

/// Any error ends an example.
pub(crate) type Result<T = (), E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// Runs `tour` on a scratch database: a new schema on the PostgreSQL that `DATABASE_URL` names, or a file in the temporary directory if
/// that is not set. Removes it afterwards, even if the tour fails or panics.
pub(crate) async fn with_scratch_database<F: Future<Output = Result> + Send + 'static>(
    name: &str,
    tour: fn(Config) -> F,
) -> Result {
    // RUST_LOG=jobwright=debug shows what the library does.
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("error,lapin=off"));
    // One of the examples has a subscriber of its own.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).try_init();
    let unique = format!("{name}_{}", std::process::id());
    let scratch = match std::env::var("DATABASE_URL").ok().filter(|url| !url.is_empty()) {
        Some(url) => Scratch::Schema(url, format!("jobwright_example_{unique}")),
        None => Scratch::File(std::env::temp_dir().join(format!("jobwright_example_{unique}.db"))),
    };
    let config = Config::new(scratch.config());
    println!("database: {} (schema {})\n", config.database.url.redacted(), config.database.schema);
    // A separate task, so that a failed assertion does not skip the cleanup.
    let toured = tokio::spawn(tour(config)).await;
    scratch.remove().await?;
    toured?
}

enum Scratch {
    Schema(String, String),
    File(PathBuf),
}

impl Scratch {
    fn config(&self) -> DatabaseConfig {
        match self {
            // With the search path, the same SQL finds the example's own tables on both databases.
            Self::Schema(url, schema) => {
                let separator = if url.contains('?') { '&' } else { '?' };
                let url = format!("{url}{separator}options=-c%20search_path%3D{schema}");
                DatabaseConfig::url(url).schema(schema.clone())
            }
            Self::File(file) => DatabaseConfig::url(format!("sqlite:{}", file.display())),
        }
    }

    async fn remove(&self) -> Result {
        match self {
            Self::Schema(_, schema) => {
                let mut cx = MessageServices::postgres(&self.config()).await?.begin();
                cx.transaction().await?.batch_execute(&format!("drop schema if exists {schema} cascade")).await?;
                cx.commit().await?;
            }
            Self::File(file) => {
                for end in ["", "-wal", "-shm"] {
                    let file = PathBuf::from(format!("{}{end}", file.display()));
                    if file.exists() {
                        std::fs::remove_file(file)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Waits until no job is waiting, running, with an external worker or set to a timer.
pub(crate) async fn until_idle<S: Store>(messages: &MessageServices<S>) -> Result {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let status = messages.admin().status().await?;
        if status.queues.iter().all(|queue| queue.waiting + queue.running + queue.external + queue.timer == 0) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("there is still work after 30 s: {:?}", status.queues).into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
