//! Contexts: the writes and messages of one are committed together, or not at all.

/// Delegates to the wrapped service in this field.
macro_rules! wraps {
    ($field:tt: $store:ty) => {
        fn inner(&self) -> Option<&dyn MessageService<$store>> {
            Some(&*self.$field)
        }

        fn inner_mut(&mut self) -> Option<&mut dyn MessageService<$store>> {
            Some(&mut *self.$field)
        }
    };
}

mod all_stores;
mod application_pool;
mod commits;
mod concurrent_commits;
mod enlisted;
mod enlisted_services;
mod lost_commits;
mod services;
// The same tests below each.
#[allow(clippy::duplicate_mod)]
mod sqlx_0_8;
#[allow(clippy::duplicate_mod)]
mod sqlx_0_9;
mod unusual_services;

cases_with_sqlx! {
    {}
    {
        all_stores {
            writes_and_messages_commit_together
            messages_alone_need_no_transaction
            nothing_to_do_is_no_error
            a_rollback_leaves_nothing
            a_dropped_context_leaves_nothing
            a_dropped_context_with_jobs_is_told_once
            sending_only_collects
            a_refused_message_leaves_the_context_usable
            sending_an_id_again_changes_nothing
            a_handler_commits_its_messages_with_its_job
            a_handler_that_fails_sends_nothing
            a_handler_that_lost_its_job_leaves_nothing
        }
        services {
            a_service_sees_all_that_is_sent_and_hears_of_the_commit
            a_service_sees_the_jobs_that_handlers_send_and_their_senders
            it_hears_of_no_commit_that_did_not_happen
            an_audit_row_and_its_message_are_one_commit
            a_refused_send_leaves_the_context_usable
            a_refused_flush_keeps_nothing
            a_handler_whose_flush_is_refused_has_failed
            services_wrap_in_the_order_they_were_added
            a_clone_keeps_the_services_it_has
        }
        unusual_services {
            a_service_may_keep_messages_to_itself
            a_service_may_send_more_at_the_flush
            unique_jobs_that_were_not_written_are_reported
            a_transaction_opened_after_the_flush_fails_with_commit_unknown
            a_failure_after_a_commit_of_its_own_says_that_it_is_sent
            an_abandoned_flush_fails_with_commit_unknown
            a_service_that_implements_nothing_and_wraps_none_says_so
            a_service_that_panics_or_hangs_fails_the_commit
            a_panic_after_the_commit_changes_nothing
            a_panic_of_a_dropped_service_keeps_no_job
            jobs_of_two_flushes_run_at_once
        }
        concurrent_commits {
            concurrent_sends_store_each_job_once
            each_keeps_its_order
        }
    }
}
