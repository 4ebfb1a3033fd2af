//! Executors: what runs, when, how often, and what becomes of it.

mod back_pressure;
mod batches;
mod cancelling;
mod codecs;
mod conflicts;
mod counting;
mod ends;
mod failing_tasks;
mod failures;
mod group_runs;
mod groups_and_limits;
mod hot_path;
mod limits;
mod listing_pages;
mod liveness;
mod locked_jobs;
mod maintenance;
mod middleware;
mod not_here;
mod old_snapshots;
mod operators;
mod outcomes_of_all;
mod panics;
mod progress_and_results;
mod query_plans;
mod refused_outcomes;
mod replaced_file;
mod scheduling;
mod search_path;
mod sessions;
mod shared_cursors;
mod starting;
mod stopping;
mod successful_jobs;
mod suspects_alone;
mod telemetry;
mod terminating;
mod time_to_live;
mod upgrades;
mod wake_ups;
mod walks;
mod why;

cases_with_sqlx! {
    {
        ends {
            each_end_is_an_end
            what_an_operator_removes_is_over
            a_job_that_is_not_over_is_pending
            a_failed_attempt_is_no_end
            the_history_tells_how_a_job_ended
        }
        refused_outcomes {
            one_of_many_is_a_dead_letter_that_says_why
            one_that_can_not_end_waits_at_its_cost
            a_table_that_is_gone_for_a_while
        }
        why {
            nodes_that_do_not_take_it
            rules_that_hold_it
            limits_that_are_reached
            a_rate_that_is_reached
            a_group_that_another_has
            a_group_whose_job_is_gone
            slots_that_are_busy
            what_is_elsewhere
            what_no_poll_takes
            two_things_at_once
            after_the_death_of_its_node
            all_that_wait
            some_nodes_that_can_not
        }
        suspects_alone {
            nothing_runs_beside_one
            a_batch_does_not_keep_one_waiting
            limits_count_them
            an_executor_stops_in_the_middle
        }
        codecs {
            nothing_of_a_sealed_job_is_stored_in_plain
            a_key_that_is_missing_costs_an_attempt_and_no_job
            dead_letters_with_sealed_errors_are_one_group
            a_schedule_that_is_put_again_is_unchanged_until_the_key_changes
            unique_jobs_are_compared_before_they_are_encoded
            batches_see_plain_payloads_and_lose_only_unreadable_ones
        }
        time_to_live {
            an_unclaimed_job_expires_in_time
            a_job_claimed_in_time_runs_to_its_end
        }
        operators {
            whatever_an_operator_does_is_in_the_audit
            a_dry_run_changes_nothing
            a_rule_is_put_whole
            some_jobs_are_retried
            overdue_schedules_are_reported
            a_schedule_from_a_clock_that_was_ahead_is_reported
            whether_the_database_is_down_is_known
        }
        liveness {
            a_long_transaction_costs_no_node_its_lease
            a_clock_change_kills_no_node
            a_forgotten_node_hears_of_it_when_it_claims
        }
        failing_tasks {
            claims_that_fail_are_shown_until_they_succeed
        }
        not_here {
            a_node_that_can_run_nothing_takes_nothing_from_others
            a_kind_that_is_left_alone_keeps_no_slot_and_comes_back
            a_job_that_is_itself_the_cause_fails_in_the_end
            a_group_keeps_its_order
            a_batch_that_can_not_run_is_given_back
            a_check_is_asked_before_jobs_are_taken
        }
        limits {
            a_free_slot_of_a_kind_is_filled_without_a_poll
            a_queue_never_runs_more_than_its_concurrency
            a_kind_never_runs_or_holds_more_than_its_concurrency
            a_full_kind_does_not_hold_up_others
            by_priority_then_order
            an_urgent_job_is_next_in_a_flood
        }
        scheduling {
            one_that_is_put_is_heard_of
            many_nodes_run_each_occurrence_once
        }
        starting {
            a_missing_state_is_said
            two_handlers_for_one_kind_are_refused
            impossible_settings_are_refused
            nothing_to_run_is_refused_unless_it_is_meant
            a_missing_schema_is_said
        }
    }
    {
        telemetry {
            what_commits_send_is_counted
            each_attempt_is_counted_once_with_its_outcome
            what_is_cancelled_while_it_runs_is_lost
            an_executor_is_ready_from_its_first_renewal_to_its_stop
        }
        back_pressure {
            a_full_queue_refuses
            a_sender_waits_in_vain
            waiting_senders_go_on_when_there_is_room
        }
        middleware {
            middleware_runs_around_handlers_in_the_order_it_was_added
            middleware_sees_a_panic_as_an_error
            a_middleware_that_panics_fails_the_attempt
            a_middleware_that_fails_an_attempt_rolls_it_back
            a_middleware_can_not_commit_for_the_handler
            a_middleware_may_end_a_job_without_its_handler
            middleware_runs_around_each_job_of_a_batch
            a_send_hook_sees_all_that_is_sent_and_may_change_it
            a_send_hook_refuses_a_job_and_leaves_the_context_usable
            a_trace_goes_from_the_sender_through_handlers
            a_job_of_no_trace_begins_none
        }
        batches {
            a_full_batch_is_one_call_and_one_commit
            a_batch_that_does_not_fill_runs_after_its_wait
            a_batch_is_never_larger_than_its_concurrency_allows
            each_job_of_a_batch_ends_by_itself
            one_failure_rolls_back_the_batch
            a_panic_fails_all_jobs_of_its_batch
            an_error_fails_all_jobs_of_its_batch
            a_timeout_fails_all_jobs_of_its_batch
            a_batch_with_a_job_that_is_no_longer_owned_commits_nothing
            a_shutdown_runs_jobs_that_wait_for_their_batch
            a_shutdown_without_patience_gives_a_batch_back
            jobs_handed_over_gather_too
            impossible_batches_are_refused
        }
        cancelling {
            a_cancelled_handler_is_notified_and_may_clean_up
            one_that_does_not_listen_is_dropped
            a_shutdown_ends_the_grace
            the_group_goes_on
            its_id_is_sent_again
            writes_of_a_cancelled_handler_are_rolled_back
        }
        conflicts {
            a_conflict_is_run_again_within_its_attempt
            an_endless_conflict_is_a_failure
            a_stop_does_not_wait_for_a_conflict
            the_classifier_decides_the_meaning_of_an_error
            a_queue_has_a_retry_policy
        }
        terminating {
            a_group_waits_for_the_handler
            an_ordered_group_waits_for_the_handler
            a_limit_waits_for_the_handler
            a_limit_that_came_later_waits_for_the_handler
            the_same_id_waits_for_the_handler
            a_node_that_leaves_frees_the_group
            a_timeout_waits_for_the_thread
        }
        failures {
            an_error_rolls_back_and_is_tried_again
            attempts_end_as_a_dead_letter_with_their_history
            each_outcome_has_its_effect
            errors_say_whether_to_try_again
            the_retry_policy_sets_the_delay
            a_panic_is_a_failure_that_names_its_place
            a_panic_before_there_is_a_future_is_one_too
            a_panic_of_a_blocking_handler_is_one_too
            a_timeout_is_a_failure
            an_unreadable_payload_becomes_a_dead_letter
            an_attempt_near_the_largest_number_ends_as_a_dead_letter
        }
        groups_and_limits {
            a_group_runs_back_to_back
            groups_never_overlap_over_nodes_and_queues
            limits_hold_over_nodes
            nodes_die_and_permits_are_conserved
            a_pause_ends_at_once
        }
        hot_path {
            an_id_that_is_sent_twice_in_a_commit_runs_once
            with_a_free_slot_there_is_no_claim
            a_job_sent_right_after_the_start_runs
            never_more_than_there_is_room_for
            preclaimed_jobs_do_not_overtake_waiting_ones
        }
        progress_and_results {
            the_next_attempt_goes_on_from_the_checkpoint
            too_much_to_keep_is_refused
            progress_of_a_lost_job_is_refused
            a_result_can_be_waited_for
            the_history_tells_why_a_job_left_no_result
            a_result_is_kept_as_long_as_asked
        }
        successful_jobs {
            a_job_is_done_and_gone
            a_command_gets_its_state_and_its_payload
            jobs_of_an_alias_find_their_command
            closures_get_the_job
            blocking_handlers_run_beside_others
            an_unknown_kind_waits_untouched_for_a_node_that_knows_it
            other_queues_are_left_alone
            not_before_it_is_due
            timers_are_promoted_once_by_many_nodes
            many_nodes_drain_a_flood
            many_nodes_run_each_job_once
            numbers_beyond_32_bits
        }
        stopping {
            a_shutdown_waits_for_its_handlers
            jobs_sent_during_a_shutdown_do_not_start_here
            a_shutdown_releases_unfinished_jobs
            after_a_shutdown_nothing_is_claimed
            a_dropped_executor_releases_its_jobs
            a_node_that_left_is_forgotten
        }
    }
}
