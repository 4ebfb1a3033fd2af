//! Executors: what runs, when, how often, and what becomes of it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

#[path = "../support/mod.rs"]
mod support;

mod back_pressure;
mod expiry;
mod failing;
mod hot_path;
mod limits;
mod plans;
mod running;
mod starting;
mod stopping;
mod waking;

/// A test for each case, run against one kind of database.
macro_rules! run {
    ($db:ty, $($module:ident { $($case:ident)* })*) => {
        $(mod $module {
            use crate::support::world::World;

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
    back_pressure {
        a_full_queue_refuses
        a_sender_waits_in_vain
        waiting_senders_go_on_when_there_is_room
    }
    expiry {
        what_nobody_runs_is_a_dead_letter_in_time
        what_was_claimed_in_time_runs_to_its_end
    }
    failing {
        an_error_rolls_back_and_is_tried_again
        attempts_end_as_a_dead_letter_with_their_history
        each_outcome_does_what_it_says
        errors_say_whether_to_try_again
        the_retry_policy_sets_the_delay
        a_panic_is_a_failure_that_names_its_place
        a_panic_of_a_blocking_handler_is_one_too
        a_timeout_is_a_failure
        a_payload_nobody_can_read_ends_as_a_dead_letter
        an_attempt_near_the_largest_number_ends_as_a_dead_letter
    }
    hot_path {
        with_a_free_slot_there_is_no_claim
        never_more_than_there_is_room_for
        not_past_those_who_wait
    }
    limits {
        a_queue_never_runs_more_than_its_concurrency
        a_kind_never_runs_or_holds_more_than_its_concurrency
        a_full_kind_does_not_hold_up_others
        by_priority_then_order
    }
    running {
        a_job_is_done_and_gone
        a_command_gets_its_state_and_its_payload
        jobs_of_an_alias_find_their_command
        closures_get_the_job
        blocking_handlers_run_beside_others
        an_unknown_kind_waits_untouched_for_who_knows_it
        other_queues_are_left_alone
        not_before_it_is_due
        timers_are_promoted_once_by_many_nodes
        many_nodes_run_each_job_once
        numbers_beyond_32_bits
    }
    starting {
        a_missing_state_is_said
        two_handlers_for_one_kind_are_refused
        impossible_settings_are_refused
        a_missing_schema_is_said
    }
    stopping {
        a_shutdown_waits_for_its_handlers
        a_shutdown_releases_what_did_not_finish
        after_a_shutdown_nothing_is_claimed
        a_dropped_executor_releases_its_jobs
        a_node_that_left_is_forgotten
    }
}
