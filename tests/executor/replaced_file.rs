//! The file of an embedded database is removed or replaced under an executor.

#![cfg(all(unix, feature = "sqlite"))]

use std::path::{Path, PathBuf};
use std::time::Duration;

use jobwright::{CommandExecutor, ErrorKind, NewJob, Outcome};

use crate::support::TestDb;
use crate::support::environment::{Gate, PATIENCE, World, quick};
use crate::support::sqlite::SqliteDb;

/// Asserts that the executor stops, cancels its handlers, and says why.
async fn ends(change: impl FnOnce(&Path), why: &str) {
    let db = SqliteDb::with_ledger().await.unwrap();
    let file: PathBuf = db.store().path().to_owned();
    let messages = db.messages().await;
    let gate = Gate::closed();
    let door = gate.clone();
    let executor = CommandExecutor::builder(messages.clone())
        .config(quick())
        .queue("default", 2)
        .handle_with("waits", move |_| {
            let door = door.clone();
            Box::pin(async move {
                door.pass().await;
                Ok(Outcome::Done)
            })
        })
        .start()
        .await
        .unwrap();
    for _ in 0..2 {
        messages.send(NewJob::json("waits", &())).await.unwrap();
    }
    gate.waiting(2).await;
    change(&file);
    tokio::time::timeout(PATIENCE, executor.ended()).await.expect("it went on");
    assert!(gate.nobody_waits(), "its handlers were cancelled");
    let telemetry = executor.telemetry();
    assert!(!telemetry.health().is_live);
    let error = executor.shutdown(Duration::ZERO).await.unwrap_err();
    assert!(!telemetry.health().is_live, "a question for the reason has not made it alive");
    assert_eq!(error.kind(), ErrorKind::Replaced, "{error}");
    assert!(error.to_string().contains("the file was moved or replaced") && error.to_string().contains(why), "{error}");
    assert!(!error.is_retryable());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_file_ends_it() {
    ends(|file| std::fs::remove_file(file).unwrap(), "there is no file of that name").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_was_moved_away_ends_it() {
    ends(|file| std::fs::rename(file, file.with_extension("moved")).unwrap(), "there is no file of that name").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_in_its_place_ends_it() {
    let replace = |file: &Path| {
        let copy = file.with_extension("copy");
        std::fs::copy(file, &copy).unwrap();
        std::fs::rename(copy, file).unwrap();
    };
    ends(replace, "another file has its name").await;
}

/// After a shutdown was requested, the same call returns no error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executor_that_was_asked_to_stop_has_no_error() {
    let db = SqliteDb::with_ledger().await.unwrap();
    let executor =
        CommandExecutor::builder(db.messages().await).config(quick()).without_handlers().start().await.unwrap();
    executor.shutdown(Duration::ZERO).await.unwrap();
}
