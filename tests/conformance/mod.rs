//! The behaviour that every store must have.
//!
//! Each case also runs against the oracle in memory: if the oracle fails a case, the case is wrong.

mod bulk_operations;
mod by_sql;
mod claiming;
mod claims_in_flight;
mod clocks;
mod concurrency;
mod counting;
mod dead_letters;
mod delivered;
mod doctor_checks;
mod external;
mod fencing;
mod fencing_tokens;
mod foreign_migrations;
mod given_ids;
mod group_runs;
mod groups;
mod hidden_rows;
mod hints;
mod history;
mod idempotence;
mod idle_load;
mod ids_of_other_jobs;
mod installations;
mod job_operations;
mod large_batches;
mod limits;
mod list_show_status;
mod locked_by_others;
mod locked_rows;
mod maintenance;
mod misfires;
mod node_ids;
mod nodes;
mod number_limits;
mod old_snapshots;
mod overlaps;
mod payloads;
mod preclaimed;
mod progress;
mod queue_capacity;
mod rates;
mod reconciliation;
mod refused_nodes;
mod refused_rows;
mod release_lost;
mod release_unknown;
mod replica_identities;
mod retry_cancel_delete;
mod schedules;
mod schema;
mod sending;
mod settling;
mod sql_send;
mod strangers;
mod submissions;
mod suspects;
mod suspects_under_rules;
mod terminating;
mod time_to_live;
mod timers;
mod transactions;
mod unique_key_release;
mod unique_key_rows;
mod uniques;
mod unreadable;
mod unreadable_rules;
mod waiting_kinds;

/// Defines a test for each case of each module, run against one kind of database.
macro_rules! run {
    ($db:ty, $($module:ident { $($case:ident)* })*) => {
        $(mod $module {
            use crate::support::TestDb;

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                if let Some(db) = <$db>::create().await {
                    crate::conformance::$module::$case(&db).await;
                }
            })*
        })*
    };
}

macro_rules! conformance {
    (every { $($every:tt)* } sql { $($sql:tt)* } postgres { $($postgres:tt)* }) => {
        mod oracle {
            run! { crate::support::oracle::Oracle, $($every)* }
        }
        #[cfg(feature = "sqlite")]
        mod sqlite {
            run! { crate::support::sqlite::SqliteDb, $($every)* $($sql)* }
        }
        mod postgres {
            run! { crate::support::postgres::Pg<false>, $($every)* $($sql)* $($postgres)* }
        }
        mod pgbouncer {
            run! { crate::support::postgres::Pg<true>, $($every)* $($sql)* $($postgres)* }
        }
    };
}

mod sqlx;

conformance! {
    every {
        claiming {
            by_priority_then_order
            the_best_of_many
            at_most_the_limit
            one_queue_only
            only_given_kinds
            other_kinds_are_not_in_the_way
            a_claim_continues_from_its_cursor
            up_to_the_mark
            the_mark_knows_priorities
            from_the_marks_of_several_ranks
            a_dead_or_unknown_node_claims_nothing
            gives_a_token_and_raises_the_attempt
            hands_out_the_whole_job
            only_waiting_jobs_are_taken
        }
        concurrency {
            claimers_share_without_overlap
            everything_at_once
            promoters_share_without_overlap
            monitors_share_without_overlap
            one_outcome_wins
            one_send_of_an_id_wins
            overlapping_batches_do_not_collide
            claims_meet_the_death_of_their_node
            nodes_register_at_once
        }
        dead_letters {
            found_by_their_newest_error
            found_by_when_they_died_and_were_sent
            dead_letters_are_grouped_by_error
            run_again_some_at_a_time
            run_again_one_after_the_other
            a_thousand_over_a_while
        }
        delivered {
            a_delivery_claims_the_rows_it_names
            hidden_or_not
            only_in_the_version_it_names
            only_given_kinds
            only_by_the_living
            only_waiting_jobs_are_taken
            the_same_row_twice_in_a_batch
            old_and_new_deliveries_in_a_batch
            two_nodes_share_without_overlap
            five_hundred_at_once
            nothing_named_nothing_taken
        }
        external {
            handed_out_with_everything
            the_best_jobs_are_handed_out_up_to_the_limit
            only_waiting_jobs_are_taken
            taken_back_at_no_cost
            done_is_gone
            a_reply_is_left
            a_reply_without_a_result
            a_reply_of_bytes
            without_a_reply_address_no_reply_is_sent
            only_the_current_hand_out_counts
            each_verdict
            an_error_names_no_node
            attempts_run_out
            a_lease_that_runs_out_costs_the_attempt
            the_last_lease_ends_as_a_dead_letter
            leases_run_out_in_batches
            an_extended_lease_holds
            an_extension_without_a_length
            a_report_is_judged_by_the_job_that_was_handed_out
            a_very_long_lease
            cancel_refuses_the_report
            its_id_is_taken
            takers_share_without_overlap
        }
        number_limits {
            seq_beyond_32_bits
            as_many_attempts_as_allowed
            more_attempts_than_allowed
        }
        fencing {
            each_outcome_is_accepted_once
            not_from_another_node
            not_with_another_version
            wherever_the_row_is
            not_before_a_claim
            not_after_release
            not_after_the_node_was_lost
            not_after_it_became_a_dead_letter
            not_after_a_timer
            not_after_cancel
            a_batch_is_judged_one_by_one_when_complete
            a_batch_is_judged_one_by_one_when_settled
            a_batch_may_mix_verdicts
            the_same_fence_twice_in_a_batch
            nothing_to_settle
            a_thousand_at_once
        }
        fencing_tokens {
            of_an_id_that_is_used_again
            a_stale_fence_of_a_preclaimed_id_that_was_sent_again_is_refused
            of_a_row_that_was_put_back
            of_a_job_that_is_handed_out_again
            a_long_one_does_not_stay_with_the_row
            the_last_one_is_as_good
        }
        hints {
            a_store_says_whether_it_hears
            hints_may_go_nowhere
            another_process_hears_them
            strangers_do_not_hear_them
        }
        given_ids {
            of_a_waiting_job
            of_a_running_job
            of_a_timer
            of_a_suspended_job
            of_a_dead_letter
            of_an_external_job
            of_a_job_that_is_gone
            one_flush_for_two_jobs
            of_a_submission
        }
        hidden_rows {
            claims_pass_over_it
            a_full_look_finds_it
            until_the_hold_runs_out
            unhide_ends_it
            unhide_returns_each_queue_once
            preclaimed_rows_are_not_hidden
            timers_are_not_hidden
            in_batches_of_all_kinds
            released_is_not_held
            a_hold_hides_nothing_from_people
        }
        idempotence {
            while_waiting
            while_running
            while_a_timer
            while_suspended
            while_dead
            of_a_job_sent_without
            gone_means_free
            twice_in_one_batch
            twice_in_one_batch_once_delayed
            twice_in_one_batch_owned
            others_of_the_batch_are_kept
            any_uuid_will_do
        }
        release_lost {
            nothing_is_lost_while_all_live
            a_lost_owner_costs_the_attempt
            a_killer_ends_as_a_dead_letter
            in_batches
            dead_nodes_are_forgotten_when_they_own_nothing
            the_living_keep_theirs
            several_dead_nodes
            the_record_stays_bounded
            a_killer_is_quarantined
            a_retried_job_starts_with_no_deaths
            the_last_death_is_the_reason
            jobs_settled_before_a_death_are_not_lost
        }
        suspects {
            no_other_claim_takes_them
            only_of_the_queues_and_kinds_that_are_asked_for
            deaths_in_company_prove_nothing
            earlier_proofs_make_none_of_a_death_in_company
            a_job_whose_process_dies_while_it_runs_alone_is_quarantined
            a_retried_suspect_is_no_suspect
            an_end_of_the_attempt_clears_it
            given_back_it_is_a_suspect_again
            released_jobs_are_no_suspects
            without_quarantine_there_are_none
            acquitted
            messages_of_a_dead_relay_are_none
        }
        misfires {
            missed_and_skipped
            a_little_late_is_not_missed
            missed_and_made_up_for_once
            missed_and_all_made_up_for
            a_schedule_that_catches_up_does_not_delay_others
            an_end
            a_number_of_times
            a_number_of_repetitions
            no_overlap_while_the_job_is_alive
            overlap_is_allowed
            skipped_occurrences_do_not_count
            a_failure_changes_nothing
        }
        nodes {
            each_start_is_a_new_node
            status_lists_the_nodes
            a_heartbeat_renews_the_lease
            a_late_heartbeat_renews_too
            node_death_does_not_depend_on_a_clock
            a_dead_node_is_not_revived
            only_the_silent_are_declared
            each_node_is_watched_by_another
            an_expired_node_loses_its_jobs
            retired_is_gone
            a_retiring_node_gives_back_the_jobs_it_owns
            retired_beside_others
            expired_but_not_yet_released
            the_broker_is_shown
            a_detached_handle_lives_elsewhere
        }
        list_show_status {
            pages
            filters
            each_state
            show_agrees_with_list
            show_of_nothing
            status_counts
            status_finds_overdue_timers
            the_oldest_waiting_grows
            looking_changes_nothing
            a_store_describes_itself_in_one_line
        }
        preclaimed {
            by_a_live_node
            is_finished_like_any_claim
            by_a_dead_node_waits
            only_due_jobs_are_preclaimed
            nothing_asked_nothing_owned
            beside_ids_that_exist
            many
            is_released_when_its_node_dies
        }
        payloads {
            json_documents
            unicode
            json_texts_in_odd_shapes
            bytes
            a_mebibyte
            headers
            mixed_batch
        }
        release_unknown {
            an_old_claim_does_not_hide_a_lost_one
            an_unheard_claim_costs_nothing
            knowing_nothing_gives_back_all
            later_claims_are_left_alone
            by_name_too
            put_off_is_spent_and_hidden
            others_keep_theirs
        }
        schedules {
            an_occurrence_sends_the_job
            bytes_and_no_headers
            each_occurrence_happens_once
            not_before_it_is_due
            an_occurrence_is_one_job
            paused_and_resumed
            put_again
            put_at_once
            put_over_an_unseen_change
            changed_while_it_was_due
            deleted_and_put_again_while_it_was_due
            run_now
            filled_in
            nothing_to_fill_in
            listed_by_name
            deleted
            unknown_names
        }
        schema {
            missing_parts_are_named
            twice_is_once
            ten_at_once
        }
        sending {
            one
            two
            a_thousand
            five_thousand
            none
            later_sends_come_later
            delayed_jobs_keep_their_place
            new_jobs_are_untouched
            the_flush_is_dated
            a_due_job_waits
            a_job_due_later_is_a_timer
            all_or_nothing
            names_may_be_long_and_foreign
            each_job_of_a_batch_keeps_its_own_values
        }
        settling {
            retry_goes_round_with_everything
            an_error_is_on_the_record
            without_an_error_the_record_stays
            an_error_is_kept_with_every_verdict
            attempts_run_out
            a_single_attempt
            dead_at_once
            snooze_costs_nothing
            release_costs_nothing
            cancel_removes
            delays_are_kept
            the_newest_ten_errors_are_kept
            long_errors_are_cut
        }
        retry_cancel_delete {
            retry
            cancel
            delete
            a_dead_letter_starts_again
            a_timer_keeps_its_attempts
            only_matching_jobs_are_affected
            retry_affects_only_matching_jobs
            cancel_of_a_running_job
            delete_leaves_the_running
            thousands
        }
        submissions {
            stored_once
            another_message_is_a_conflict
            twice_in_one_batch
            kept_for_later
            of_a_live_job_of_ours
            known_after_the_job_is_gone
            racing_receivers
            pruned_by_age
            a_full_batch
        }
        timers {
            nothing_to_promote
            in_batches
            next_is_now_when_more_is_due
            next_is_the_soonest
            says_in_which_queues
            the_earliest_first
            not_before_their_time
            exactly_those_that_are_due
            promoted_jobs_keep_their_place
        }
        transactions {
            nothing_is_seen_before_the_commit
            rolled_back_is_nothing
            several_flushes_in_one
            a_handler_commits_all_at_once
            a_stale_claim_is_not_removed
            removed_together_all_claims_have_to_be_current
            inserts_like_the_engine
            a_thousand_in_one_flush
            nothing_to_commit
            dropped_transactions_leave_nothing_behind
        }
    }
    sql {
        waiting_kinds {
            by_queue_and_kind
            the_oldest_of_a_kind_is_told
            a_queue_with_more_jobs_than_are_read_is_partial
        }
        installations {
            an_id_stays_until_a_copy_is_adopted
        }
        ids_of_other_jobs {
            of_a_blocked_job
            of_a_job_that_was_moved
            of_unique_jobs
            in_a_flush_of_several_statements
            of_occurrences
            of_occurrences_that_do_not_overlap
            of_a_unique_submission
        }
        bulk_operations {
            run_again_in_many_transactions
            run_again_one_after_the_other_in_many_transactions
            a_watch_ends_it_between_two_transactions
        }
        unreadable {
            met_by_a_claim
            met_one_at_a_time
            met_by_a_delivery
            met_by_a_hand_out
            met_by_an_admission
            options_of_any_shape
            run_again_is_buried_again
            remembered_as_any_dead_letter
            many_do_not_make_a_queue_look_empty
        }
        node_ids {
            ids_of_nodes
        }
        maintenance {
            due_maintenance_is_reported
        }
        clocks {
            all_is_well_with_a_right_clock
            a_schedule_is_computed_again
            each_occurrence_that_counts_happens_once
            a_schedule_put_by_a_wrong_clock
            a_rate_goes_on
            a_lease_of_an_external_worker_ends
            an_extended_lease_ends
            a_time_to_live_ends
            another_attempt_is_made
            a_timer_that_was_asked_for_stays
            a_hold_ends
            a_key_is_free_after_its_period
            priorities_raised_too_early_are_lowered_again
            a_priority_raised_to_the_maximum_is_lowered_by_what_was_added
            timestamps_ahead_of_the_clock_are_reported
        }
        doctor_checks {
            jobs_blocked_without_a_rule_are_a_fault
            a_key_that_was_not_unblocked_is_a_fault
            a_rate_is_no_fault
            overdue_unblocks_are_reported
            overdue_work_is_reported
            many_unblocks_of_few_keys_do_not_end_admission
        }
        large_batches {
            sixty_four_documents_of_a_megabyte
            in_a_transaction_of_the_caller
            owned_from_the_start
            ids_that_are_given_twice_count_once
            the_same_ids_by_two_senders_at_once
            submissions
            results_of_external_workers
        }
        terminating {
            a_group_waits_for_the_handler
            a_limit_waits_for_the_handler
            all_that_it_held_waits
            the_same_id_waits_too
            only_the_node_that_ran_a_cancelled_job_reports_its_end
            a_cancelled_job_that_did_not_run_holds_nothing
            a_retired_node_frees_it
            a_dead_node_frees_it
            a_job_of_a_dead_node_holds_nothing
            a_claim_that_got_lost_frees_it
            an_external_worker_reports
            an_external_worker_says_nothing
            all_at_the_same_time
        }
        suspects_under_rules {
            jobs_of_an_evicted_node_are_no_suspects
            one_of_a_group_keeps_it
            a_pause_holds_them_too
            an_operator_may_have_it
            a_suspect_that_needs_permits_is_reported_as_such
            only_those_that_may_start_are_found
            a_new_limit_counts_them
            an_unblock_of_their_key_admits_none
        }
        groups {
            one_at_a_time_in_order
            groups_do_not_wait_for_each_other
            over_queues_and_by_priority
            a_failure_lets_others_pass
            a_failure_of_an_ordered_job_holds_the_group
            an_ordered_job_goes_on_before_better_ones
            a_deleted_job_frees_its_group
            a_dead_owner_does_not_free_the_group
            external_workers_hold_groups
            every_verdict_conserves_permits
            a_batch_releases_only_the_permits_of_the_jobs_it_ended
            a_late_outcome_releases_no_permit_of_a_new_job_with_its_id
        }
        limits {
            a_limit_bounds_running_jobs
            others_pass
            each_by_itself
            a_pause_of_all_is_one_of_all
            a_new_limit_counts_running_jobs
            a_rate_bounds_starts
            paused
            shares_by_weight
            rules_are_kept
            changes_of_a_rule_do_not_undo_each_other
            long_waiting_jobs_gain_priority
            an_admitted_job_is_not_held_for_its_delivery
        }
        unreadable_rules {
            a_schedule_that_can_not_be_read_stops_no_other
            shares_that_can_not_be_read_divide_nothing
        }
        rates {
            starts_close_to_each_other_are_counted_as_one
            starts_counted_together_keep_the_rate
            starts_counted_together_are_bounded
            starts_older_than_their_rates_period_are_removed
        }
        overlaps {
            no_overlap_while_the_job_is_blocked
        }
        time_to_live {
            nothing_expires_without_a_time_to_live
            a_waiting_job_expires
            next_is_the_soonest_and_now_when_there_is_more
            a_running_job_outlives_its_time_to_live
            requeued_it_lives_as_long_again
            an_expired_job_frees_its_group
            lookers_share_without_overlap
        }
        uniques {
            one_of_a_key_until_it_is_gone
            submitted
            key_kind_queue_and_payload_are_compared
            while_it_waits
            for_a_period
            replace
            a_suspended_job_is_not_replaced
            reject
            in_bulk
            rolled_back_it_holds_nothing
            the_same_id_twice_is_one_job
            the_first_of_an_id_that_is_given_twice_counts
            an_id_that_is_there_takes_nothing_from_others
            one_of_many_senders_wins
            replacing_races_with_claims
        }
        unique_key_release {
            a_batch_gives_its_keys_back
            beside_others_that_hold_something
            keys_of_jobs_that_a_node_did_not_end_stay
            not_the_key_that_another_has_by_now
            a_period_goes_on
            a_late_outcome_releases_no_key_of_a_new_job_with_its_id
            jobs_that_have_not_ended_keep_their_keys
            ended_by_transactions
        }
        queue_capacity {
            full_is_as_many_waiting_as_allowed
            each_queue_by_itself
        }
        refused_nodes {
            a_node_that_may_not_claim_gets_an_error
        }
        foreign_migrations {
            a_newer_schema_is_refused
            a_newer_schema_that_this_build_runs_on_is_used
            a_change_fills_in_rows_in_batches
            a_change_that_fails_is_not_applied
            an_interrupted_change_goes_on
            a_schema_from_before_the_first_release_is_refused
            an_edited_file_is_refused
        }
        history {
            nothing_is_remembered_unless_asked
            every_end_is_remembered
            failures_are_remembered_alone
            ends_outside_are_remembered_too
            a_refused_outcome_is_not_remembered
            a_rolled_back_end_is_not_remembered
            a_batch_is_remembered_one_by_one
            history_is_found_by_each_filter
            forgotten_when_old
            old_dead_letters_go
            an_old_dead_letter_frees_its_group
            the_old_audit_goes
            a_result_comes_with_the_end_of_its_job
            a_result_has_its_time
        }
        job_operations {
            suspend_from_every_state
            resume_from_every_state
            run_from_every_state
            change_in_every_state
            there_and_back
            an_ordered_job_keeps_its_group
            a_job_moved_to_another_queue_passes_admission_again
            a_delivery_to_the_old_queue_is_out_of_date
            a_unique_job_stays_unique
            chosen_by_their_options
            nonsense_is_refused
            more_than_one_transaction_takes
            the_audit_names_operator_and_action
            the_audit_names_the_operator_who_changed_a_schedule
            a_long_backfill_is_one_entry
            a_node_learns_which_of_its_jobs_are_gone
            an_evicted_node_loses_its_jobs
        }
        progress {
            progress_survives_the_attempt
            only_the_owner_says_how_far
            progress_goes_after_its_job
        }
    }
    postgres {
        counting {
            so_many_over_all_nodes
            whether_any_waits
            a_claim_takes_only_jobs_under_limits_that_it_counts
            not_under_the_rule_of_all_kinds
            two_limits_at_once
            a_late_claim_takes_nothing
            a_claim_does_not_wait_for_a_locked_limit
            numbers_that_go_round
            earlier_running_jobs_are_found_after_a_counting_claim
            a_claim_for_nothing_tells
            other_rules_count_running_jobs
            jobs_of_a_dead_node_count_until_they_are_released
            a_rate_counts_starts
            others_are_blocked
            unclaimed_permits_go_to_blocked_jobs
            nodes_with_demand_share_a_limit_equally
            a_claim_that_leaves_some_to_a_node_that_waits_says_so
            rules_that_come_and_go
            running_jobs_count_while_another_rule_is_set
            a_change_left_half_done_is_finished
            running_jobs_count_as_soon_as_their_limit_is_set
            many_claims_at_once
        }
        group_runs {
            one_after_the_other
            several_at_once
            only_fresh_ones_are_in_a_run
            a_job_claimed_next_is_like_any_claimed_job
            a_cancelled_one_keeps_the_group
            jobs_that_need_admission_are_not_claimed_next
            a_new_limit_counts_only_the_running_job_of_a_group_run
            a_locked_next_job_is_not_waited_for
            a_refused_outcome_claims_no_next_job
            a_lease_is_of_one_node
            unheard_it_is_given_back
            a_look_leaves_later_leases_alone
            the_lease_of_a_dead_node_ends
            a_lease_outlives_a_commit_under_way
            from_a_transaction
            many_at_once
        }
        replica_identities {
            each_table_has_one
        }
        by_sql {
            each_field_is_stored_as_by_a_context
            hooks_codecs_and_limits_apply
            custom_services_are_not_passed_over
            a_statement_that_is_repeated_sends_nothing_more
            keys_that_are_held
            a_rollback_sends_nothing
        }
        sql_send {
            a_given_id_is_sent_once
            senders_of_one_id_wait_for_each_other
            uniqueness_by_hand
        }
        unique_key_rows {
            none_is_left
            with_the_next_of_a_group
            an_id_in_two_tables_keeps_its_key
            keys_that_are_none
            a_sender_that_waits_for_a_key_holds_no_other_key
            senders_and_ends_of_many
        }
        idle_load {
            distant_maintenance_is_not_reported_as_due
            a_poll_names_the_queues_in_which_jobs_may_start
            a_poll_names_hidden_rows_that_claims_take
            most_nodes_read_few_heartbeats
        }
        refused_rows {
            rows_refused_by_a_trigger_do_not_fail_their_batch
            rows_the_application_refers_to_do_not_fail_their_batch
            many_that_are_refused_hide_none
            each_row_is_judged_by_its_own_error
            a_node_retires_without_its_refused_rows
            one_is_locked_and_one_refused
            a_lost_claim_that_is_locked_is_not_forgotten
        }
        locked_by_others {
            outcomes_do_not_wait_for_them
            reports_do_not_wait_for_them
            submissions_do_not_wait_for_them
            admission_passes_over_them
            schedules_do_not_wait_for_keys
            lost_claims_do_not_wait_for_them
        }
        strangers {
            the_lock_of_a_node_stops_no_claim
            no_lock_of_a_limit_is_for_all
        }
        locked_rows {
            a_claim_passes_over_them
            promoters_pass_over_them
            monitors_pass_over_them
            declarations_of_death_pass_over_them
            declarations_pass_over_rows
            first_sends_of_an_id_meet
            an_id_in_two_tables_blocks_nothing
            commits_make_no_multixacts
            an_old_snapshot_owns_nothing
            a_commit_that_hands_over_is_bounded
            deliveries_pass_over_them
            hand_outs_pass_over_them
            a_retiring_node_waits_for_its_claims
            schedulers_pass_over_them
            an_evicted_node_is_not_waited_for
            a_silent_transaction_keeps_no_node_from_retiring
            a_rule_waits_for_a_pass_under_way
            a_job_that_goes_while_a_pass_admits_it_keeps_no_group
        }
        old_snapshots {
            an_id_sent_during_a_move_does_not_block_recovery
            an_id_sent_past_a_move_vetoes_no_outcome
        }
        reconciliation {
            unblocks_of_keys_that_no_job_waits_for_hold_up_no_group
            errors_that_are_no_list_are_dropped
            permits_of_a_truncated_table_are_released
            a_handler_whose_job_vanished_keeps_its_group
            permits_of_existing_jobs_stay
            keys_that_nothing_unblocks_are_unblocked
            more_permits_than_a_page_has
        }
        claims_in_flight {
            a_claim_keeps_its_dead_node
            a_claim_of_deliveries_keeps_its_dead_node
            a_commit_that_hands_over_keeps_its_dead_node
            a_node_retires_after_its_claim
            a_node_retires_after_its_claim_of_deliveries
            a_node_retires_after_its_commit_that_hands_over
            a_claim_that_meets_the_death_of_its_node_sees_it
            a_limit_does_not_wait_forever
        }
    }
}
