//! Random histories. Some are played against a store and the oracle at once, which must always agree. Where a store decides among equals, or nodes
//! act at the same time, there is no oracle; instead, conditions are checked after each step.
//!
//! A failure is shrunk to a short history, and its seed kept in `proptest-regressions/`, from where it is tried first next time.
//! `JOBWRIGHT_PROPTEST_CASES` sets how many histories are played.

mod admission;
mod admission_ops;
mod admission_watch;
mod delivering;
mod expiry;
mod ops;
mod player;
mod schedules;
mod schedules_model;
mod snapshot;
mod uniques;
mod uniques_model;

use std::fmt::Debug;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestError, TestRunner};

use self::player::{Outcome, Player};
use crate::support::TestDb;
use crate::support::oracle::Oracle;

/// The longest history.
const OPS: usize = 40;

fn plays<T: TestDb>(cases: u32) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Some(db) = runtime.block_on(T::create()) else { return };
    let cases = std::env::var("JOBWRIGHT_PROPTEST_CASES").ok().map_or(cases, |text| text.parse().unwrap());
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("proptest-regressions/state_machine.txt"))),
        // Shrinking goes on while it helps, but must end before the test is killed without a message.
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

/// Plays histories of one kind, each from its start to its end, until one of them fails. `name` is the file that keeps the seeds of failures.
fn histories<T: TestDb, O: Debug>(
    name: &'static str,
    cases: u32,
    strategy: &impl Strategy<Value = Vec<O>>,
    play: &impl AsyncFn(&T, &[O]) -> Outcome<()>,
) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Some(db) = runtime.block_on(T::create()) else { return };
    let cases = std::env::var("JOBWRIGHT_PROPTEST_CASES").ok().map_or(cases, |text| text.parse().unwrap());
    let mut runner = TestRunner::new(Config {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(name))),
        max_shrink_time: 60_000,
        max_shrink_iters: 5_000,
        ..Config::default()
    });
    let played = runner.run(strategy, |history| {
        runtime.block_on(async {
            db.clear().await;
            play(&db, &history).await.map_err(TestCaseError::fail)
        })
    });
    match played {
        Ok(()) => {}
        Err(TestError::Fail(why, history)) => panic!("{why}\nin this history: {history:#?}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}

/// Defines the same tests for each store.
macro_rules! state_machine {
    ($($(#[$cfg:meta])? $module:ident: $db:ty, $cases:literal)*) => {
        $($(#[$cfg])? mod $module {
            #[test]
            fn random_histories() {
                crate::state_machine::plays::<$db>($cases);
            }

            #[test]
            fn groups_and_limits() {
                // Each step checks all permits, so there are half as many histories.
                let strategy = crate::state_machine::admission_ops::history(2 * crate::state_machine::OPS);
                crate::state_machine::histories::<$db, _>("proptest-regressions/gates.txt", $cases / 2, &strategy, &crate::state_machine::admission::play);
            }

            #[test]
            fn rates_and_times() {
                // The same, with checks of admitted jobs; in the end, time passes until all that may start has.
                let strategy = crate::state_machine::admission_ops::timed_history(2 * crate::state_machine::OPS);
                crate::state_machine::histories::<$db, _>("proptest-regressions/times.txt", $cases / 6, &strategy, &crate::state_machine::admission::play);
            }

            #[test]
            fn schedules() {
                let strategy = crate::state_machine::schedules_model::history(crate::state_machine::OPS);
                crate::state_machine::histories::<$db, _>("proptest-regressions/schedules.txt", $cases / 2, &strategy, &crate::state_machine::schedules::play);
            }

            #[test]
            fn unique_jobs() {
                // Every key is tried at the end of each.
                let strategy = crate::state_machine::uniques_model::history(crate::state_machine::OPS);
                crate::state_machine::histories::<$db, _>("proptest-regressions/uniques.txt", $cases / 4, &strategy, &crate::state_machine::uniques::play);
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_real_expiry() {
                crate::state_machine::expiry::plays::<$db>().await;
            }
        })*
    };
}

state_machine! {
    #[cfg(feature = "sqlite")]
    sqlite: crate::support::sqlite::SqliteDb, 48
    postgres: crate::support::postgres::Pg<false>, 30
    pgbouncer: crate::support::postgres::Pg<true>, 10
}
