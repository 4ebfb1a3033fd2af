//! The worst problems of jBPM 3, Flowable, Activiti and Camunda 7 for their users, which do not exist here. Most are covered where the mechanism is
//! tested; docs/compare.md names the test for each. Here are those that no other test shows as users meet them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

#[path = "../support/mod.rs"]
mod support;

mod compare_docs;
mod crashes;
mod fairness;
mod operations_docs;
mod stopping;

/// Defines a test for each case, run against one kind of database.
macro_rules! run {
    ($db:ty, $($module:ident { $($case:ident)* })*) => {
        $(mod $module {
            use crate::support::environment::World;

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                if let Some(db) = <$db>::with_ledger().await {
                    crate::$module::$case(&db).await;
                }
            })*
        })*
    };
}

macro_rules! cases {
    ($($cases:tt)*) => {
        #[cfg(feature = "sqlite")]
        mod sqlite {
            run! { crate::support::sqlite::SqliteDb, $($cases)* }
        }
        mod postgres {
            run! { crate::support::postgres::Pg<false>, $($cases)* }
        }
    };
}

cases! {
    crashes {
        a_crash_holds_its_group_no_longer_than_its_job
        a_job_that_outlives_its_lease_runs_once
        nothing_waits_for_a_hand_to_free_it
    }
    fairness {
        a_busy_node_leaves_the_rest_to_others
        a_noisy_tenant_does_not_hold_up_others
        a_busy_group_makes_nobody_spin
        branches_that_meet_in_a_group_do_not_collide
        a_conflict_does_not_repeat_a_call_that_was_kept
        who_runs_what_since_when_can_be_asked
        with_the_defaults_jobs_run_by_the_hundred
    }
    stopping {
        a_stop_starts_no_other_job_of_its_group
    }
}
