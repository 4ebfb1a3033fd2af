//! Contexts: what is written and sent in one is there together, or not at all.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

#[path = "../support/mod.rs"]
mod support;

mod commits;
mod enlisted;
mod lost_commits;
mod together;
mod units;

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
    units {
        what_is_written_and_sent_commits_together
        messages_alone_need_no_transaction
        nothing_to_do_is_no_error
        a_rollback_leaves_nothing
        a_dropped_context_leaves_nothing
        sending_only_collects
        a_refused_message_leaves_the_context_usable
        sending_an_id_again_changes_nothing
        a_handler_commits_its_messages_with_its_job
        a_handler_that_fails_sends_nothing
        a_handler_that_lost_its_job_leaves_nothing
    }
    together {
        each_is_there_once_whoever_else_sends
        each_keeps_its_order
    }
}
