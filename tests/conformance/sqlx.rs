//! The cases in which a transaction of a context takes part, with those of sqlx. The engine is that of the PostgreSQL store, so the others would test nothing
//! more.

macro_rules! transactions_of {
    ($db:ty) => {
        run! {
            $db,
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
            ids_of_other_jobs {
                in_a_flush_of_several_statements
            }
            large_batches {
                in_a_transaction_of_the_caller
            }
            uniques {
                reject
                rolled_back_it_holds_nothing
                an_id_that_is_there_takes_nothing_from_others
            }
            unique_key_release {
                a_period_goes_on
                ended_by_transactions
            }
            history {
                a_rolled_back_end_is_not_remembered
                a_batch_is_remembered_one_by_one
                a_result_comes_with_the_end_of_its_job
                a_result_has_its_time
            }
        }
    };
}

mod sqlx_0_8 {
    transactions_of! { crate::support::sqlx_0_8::SqlxDb }
}

mod sqlx_0_9 {
    transactions_of! { crate::support::sqlx_0_9::SqlxDb }
}
