//! Random histories, played to a store and to the oracle at once: they must never tell different stories.
//!
//! A failure is shrunk to a short history, and its seed kept in `proptest-regressions/`, from where it is tried first next
//! time. `JOBWRIGHT_PROPTEST_CASES` sets how many histories are played.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

#[path = "../support/mod.rs"]
mod support;

mod delivering;
mod expiry;
mod gates;
mod ops;
mod player;
mod snapshot;

use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestError, TestRunner};

use self::player::Player;
use self::support::TestDb;
use self::support::oracle::Oracle;

/// Longest history.
const OPS: usize = 40;

fn plays<T: TestDb>(cases: u32) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Some(db) = runtime.block_on(T::create()) else { return };
    let cases = std::env::var("JOBWRIGHT_PROPTEST_CASES").ok().map_or(cases, |text| text.parse().unwrap());
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("proptest-regressions/state_machine.txt"))),
        // Shrinking goes on while it helps, but not until the test is killed and says nothing.
        max_shrink_time: 60_000,
        max_shrink_iters: 5_000,
        ..Config::default()
    });
    let played = runner.run(&ops::history(OPS), |history| {
        runtime.block_on(async {
            db.clear().await;
            let oracle = Oracle::create().await.unwrap();
            let mut player = Player::new(db.jobs(), oracle.jobs()).await;
            for (n, op) in history.iter().enumerate() {
                if let ops::Op::Suspend { job } = op
                    && let Some(id) = player.waiting(*job)
                {
                    db.suspend(id).await;
                    oracle.suspend(id).await;
                }
                if let ops::Op::Perish { node } = op {
                    let [here, there] = player.alive(*node);
                    db.bury(here).await;
                    oracle.bury(there).await;
                }
                player.play(op).await.map_err(|why| TestCaseError::fail(format!("step {n}: {why}")))?;
            }
            Ok(())
        })
    });
    match played {
        Ok(()) => {}
        Err(TestError::Fail(why, history)) => panic!("{why}\nin this history: {history:#?}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}

/// Histories of groups and limits, until one of them breaks a rule.
fn gates<T: TestDb>(cases: u32) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Some(db) = runtime.block_on(T::create()) else { return };
    let cases = std::env::var("JOBWRIGHT_PROPTEST_CASES").ok().map_or(cases, |text| text.parse().unwrap());
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("proptest-regressions/gates.txt"))),
        max_shrink_time: 60_000,
        max_shrink_iters: 5_000,
        ..Config::default()
    });
    let played = runner.run(&gates::history(2 * OPS), |history| {
        runtime.block_on(async {
            db.clear().await;
            let mut player = gates::Player::new(&db).await;
            for (n, op) in history.iter().enumerate() {
                player.play(op).await.map_err(|why| TestCaseError::fail(format!("step {n}: {why}")))?;
            }
            player.finish().await.map_err(|why| TestCaseError::fail(format!("at the end: {why}")))
        })
    });
    match played {
        Ok(()) => {}
        Err(TestError::Fail(why, history)) => panic!("{why}\nin this history: {history:#?}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}

/// The same tests for each store.
macro_rules! state_machine {
    ($($(#[$cfg:meta])? $module:ident: $db:ty, $cases:literal)*) => {
        $($(#[$cfg])? mod $module {
            #[test]
            fn random_histories() {
                crate::plays::<$db>($cases);
            }

            #[test]
            fn groups_and_limits() {
                // Each step asks about all slots: half as many.
                crate::gates::<$db>($cases / 2);
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_real_expiry() {
                crate::expiry::plays::<$db>().await;
            }
        })*
    };
}

state_machine! {
    #[cfg(feature = "sqlite")]
    sqlite: crate::support::sqlite::SqliteDb, 64
    postgres: crate::support::postgres::Pg<false>, 48
    pgbouncer: crate::support::postgres::Pg<true>, 16
}
