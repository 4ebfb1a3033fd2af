//! The test kit for users: each of its promises, on both stores.

mod databases;
mod inline;
mod kit;
mod running;
mod schedules;
mod sealed;
mod sent;

/// Defines a test for each case, run against one kind of database.
macro_rules! run {
    ($kit:ty, $($module:ident { $($case:ident)* })*) => {
        $(mod $module {
            use crate::test_kit::kit::Kit;

            // On one thread, as `#[tokio::test]` does it for users.
            $(#[tokio::test]
            async fn $case() {
                if let Some(db) = <$kit>::database().await {
                    crate::test_kit::$module::$case(&db).await;
                }
            })*
        })*
    };
}

macro_rules! cases {
    ($($cases:tt)*) => {
        #[cfg(feature = "sqlite")]
        mod sqlite {
            run! { jobwright::Sqlite, $($cases)* }
        }
        mod postgres {
            run! { jobwright::Postgres, $($cases)* }
        }
        mod sqlx {
            run! { jobwright::sqlx_0_8::Sqlx, $($cases)* }
        }
    };
}

cases! {
    databases {
        tests_do_not_see_each_other
        travelling_wakes_a_running_executor
        travelling_fires_the_schedules_of_a_running_executor
    }
    inline {
        a_commit_returns_after_its_jobs_have_run
        rolled_back_jobs_do_not_run
        a_failing_job_fails_no_commit_and_is_reported_at_the_end
        a_handler_that_commits_by_itself_does_not_wait_for_itself
        an_endless_chain_is_reported_at_the_end
    }
    running {
        a_drain_runs_waiting_jobs_and_the_jobs_they_send
        failures_are_reported_and_recorded
        a_job_that_was_tried_again_is_done
        jobs_without_a_handler_are_reported
        jobs_that_may_not_start_are_reported_with_the_reason
        jobs_that_send_each_other_for_ever_are_found_out
        a_job_that_comes_back_for_ever_is_found_out
        a_drain_through_time_runs_retries_and_delayed_jobs
        work_one_runs_one_job_on_the_real_path
        work_in_leaves_nothing_when_the_test_rolls_back
        middleware_and_send_hooks_are_there
        batches_are_run_as_batches
        groups_are_run_in_their_order
        a_refused_outcome_is_reported
    }
    schedules {
        each_occurrence_fires_in_its_place
        a_cron_line_fires_by_the_calendar
        schedules_keep_their_own_rules
        occurrences_that_a_test_jumps_over_are_missed
        a_schedule_that_is_put_later_begins_later
        a_schedule_is_fired_by_its_name
        a_schedule_that_fires_for_ever_is_found_out
    }
    sent {
        assertions_return_the_jobs_they_found
        a_failed_assertion_lists_the_sent_jobs_and_the_mismatch
        each_condition_can_fail
        each_option_can_be_asserted
        a_due_time_is_within_a_duration
        stored_jobs_can_be_asserted_after_the_commit
        jobs_sent_by_a_handler_can_be_asserted_inside_it
    }
}
