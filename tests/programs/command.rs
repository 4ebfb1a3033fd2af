//! A command that runs on every store: its effect is outside of the database, and it sends its successor.

use std::time::Duration;

use jobwright::admin::{JobFilter, JobState, Page};
use jobwright::{
    AnyStore, Command, CommandExecutor, DatabaseConfig, JobContext, JobError, KindOptions, MessageServices, NewJob,
    Outcome, Postgres, Sqlite, Store,
};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::programs::Directory;

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// What greetings need: where they go to.
struct Outbox {
    greetings: mpsc::UnboundedSender<String>,
}

/// Greets somebody, and leaves a job that files the greeting.
#[derive(Serialize, Deserialize)]
struct Greet {
    name: String,
}

impl<S: Store> Command<S> for Greet {
    const KIND: &'static str = "greet";
    type State = Outbox;

    fn options() -> KindOptions {
        KindOptions::default().queue("greetings").max_attempts(3)
    }

    async fn execute(self, cx: &mut JobContext<'_, Outbox, S>) -> Result<Outcome, JobError> {
        if self.name.is_empty() {
            return Err(JobError::fatal("nobody to greet"));
        }
        cx.state().greetings.send(format!("hello {}", self.name))?;
        cx.send(NewJob::json("file-greeting", &self.name))?;
        Ok(Outcome::Done)
    }
}

/// Compiles only for a command of the store `S`.
fn runs_on<S: Store, C: Command<S>>() {}

#[test]
fn it_runs_on_every_store() {
    runs_on::<Postgres, Greet>();
    runs_on::<Sqlite, Greet>();
    runs_on::<AnyStore, Greet>();
}

#[tokio::test]
async fn it_greets_on_sqlite() -> TestResult {
    let directory = Directory::new()?;
    let messages = MessageServices::sqlite(&DatabaseConfig::url(directory.url())).await?;

    let (greetings, mut greeted) = mpsc::unbounded_channel();
    let executor = CommandExecutor::builder(messages.clone())
        .command::<Greet>()
        .state(Outbox { greetings })
        .queue("greetings", 2)
        .start()
        .await?;

    let mut cx = messages.begin();
    cx.send(Greet { name: "Ada".into() })?;
    cx.commit().await?;
    let greeting = tokio::time::timeout(Duration::from_secs(10), greeted.recv()).await?;
    assert_eq!(greeting.as_deref(), Some("hello Ada"));

    let stats = executor.shutdown(Duration::from_secs(10)).await?;
    assert_eq!(stats.done, 1);
    let filed = JobFilter::state(JobState::Waiting).kind("file-greeting");
    assert_eq!(messages.admin().list(&filed, &Page::default()).await?.len(), 1);
    Ok(())
}
