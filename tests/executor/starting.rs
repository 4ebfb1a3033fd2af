//! Mistakes that are found at the start, and not by the first job.

use std::time::Duration;

use jobwright::Store;
use jobwright::admin::JobState;
use jobwright::{
    Command, CommandExecutor, ErrorKind, ExecutorConfig, JobContext, JobError, KindOptions, MessageServices, NewJob,
    Outcome,
};
use serde::{Deserialize, Serialize};

use crate::support::environment::{World, at_once, quick};

#[derive(Serialize, Deserialize)]
struct Needy;

/// A service that the handler needs.
struct Thing;

impl<S: Store> Command<S> for Needy {
    const KIND: &'static str = "needy";
    const ALIASES: &'static [&'static str] = &["poor"];
    type State = Thing;

    async fn execute(self, _: &mut JobContext<'_, Thing, S>) -> Result<Outcome, JobError> {
        Ok(Outcome::Done)
    }
}

/// Asserts that the start is refused with this text, and leaves no trace in the database.
async fn refused<W: World>(
    db: &W,
    text: &[&str],
    build: impl FnOnce(jobwright::ExecutorBuilder<W::Store>) -> jobwright::ExecutorBuilder<W::Store>,
) {
    let messages = db.messages().await;
    let error = build(CommandExecutor::builder(messages)).start().await.expect_err("it started");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    for part in text {
        assert!(error.to_string().contains(part), "{part:?} is not in {error}");
    }
    assert!(db.jobs().status().await.unwrap().nodes.is_empty());
}

pub(crate) async fn a_missing_state_is_said<W: World>(db: &W) {
    refused(db, &["needy", "Thing", ".state("], jobwright::ExecutorBuilder::command::<Needy>).await;
    let messages = db.messages().await;
    let executor = CommandExecutor::builder(messages.clone()).command::<Needy>().state(Thing).start().await.unwrap();
    messages.send(NewJob::json("poor", &Needy)).await.unwrap();
    db.drained().await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

pub(crate) async fn two_handlers_for_one_kind_are_refused<W: World>(db: &W) {
    refused(db, &["two handlers", "\"twice\""], |builder| {
        builder.handle("twice", |_| async { Ok(Outcome::Done) }).handle_blocking("twice", |_| Ok(Outcome::Done))
    })
    .await;
    // By an alias too.
    refused(db, &["two handlers", "\"poor\""], |builder| {
        builder.handle("poor", |_| async { Ok(Outcome::Done) }).command::<Needy>().state(Thing)
    })
    .await;
}

pub(crate) async fn impossible_settings_are_refused<W: World>(db: &W) {
    refused(db, &["concurrency", "\"q\"", "0"], |builder| builder.queue("q", 0)).await;
    refused(db, &["concurrency", "\"k\"", "0"], |builder| {
        builder.handle("k", |_| async { Ok(Outcome::Done) }).kind_options("k", at_once().concurrency(0))
    })
    .await;
    refused(db, &["\"typo\"", "no handler"], |builder| builder.kind_options("typo", KindOptions::default())).await;
    for config in [
        ExecutorConfig::default().lease(Duration::from_millis(1)),
        ExecutorConfig::default().poll_interval(Duration::ZERO),
    ] {
        refused(db, &["executor."], |builder| builder.config(config)).await;
    }
}

/// An executor that would run nothing is a mistake, unless it is configured so on purpose.
pub(crate) async fn nothing_to_run_is_refused_unless_it_is_meant<W: World>(db: &W) {
    refused(db, &["no handler", "without_handlers()"], |builder| builder).await;
    refused(db, &["no handler"], |builder| builder.queue("default", 5).state(Thing)).await;
    refused(db, &["without_handlers()", "something to run"], |builder| {
        builder.without_handlers().handle("k", |_| async { Ok(Outcome::Done) })
    })
    .await;
    let messages = db.messages().await;
    let executor = CommandExecutor::builder(messages.clone()).config(quick()).without_handlers().start().await.unwrap();
    let later = messages.send(NewJob::json("k", &()).delay(Duration::from_millis(1))).await.unwrap();
    db.reaches(later, JobState::Waiting).await;
    executor.shutdown(Duration::ZERO).await.unwrap();
}

pub(crate) async fn a_missing_schema_is_said<W: World>(_: &W) {
    let empty = W::create_empty().await.unwrap();
    let messages = MessageServices::new(empty.store(), &empty.config());
    let error = CommandExecutor::builder(messages).without_handlers().start().await.expect_err("it started");
    assert_eq!(error.kind(), ErrorKind::Schema, "{error}");
    assert!(error.to_string().contains("migrate"), "{error}");
}
