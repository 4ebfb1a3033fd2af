//! Programs in other languages against the wire contract: examples/java with RabbitMQ's Java client, examples/python with pika. The library's codec
//! reads what they publish, and they read what it writes. Then the same runs with one of our nodes on a database and a broker.

mod broker;
mod envelope;
mod external_jobs;
mod producers;
mod programs;
mod rejected_messages;
mod sealed;
mod site;
mod submissions;
mod wire;
mod workers;

/// Runs each case for each language. Further cases get a line here.
macro_rules! languages {
    ($($language:ident = $value:ident { $($module:ident :: $case:ident)* })*) => {
        $(mod $language {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let Some(stage) = crate::interop::programs::Stage::set(crate::interop::programs::Language::$value).await else { return };
                crate::interop::$module::$case(&stage).await;
                stage.broker.clear().await;
            })*
        })*
    };
}

languages! {
    java = Java {
        producers::submits_what_we_read
        producers::says_what_is_missing
        workers::reads_what_we_send_and_reports
        workers::says_what_is_missing_to_work
        submissions::runs_once_what_is_submitted_twice
        external_jobs::keeps_what_workers_report
        external_jobs::keeps_a_long_job_with_its_worker
        external_jobs::hands_out_again_what_a_killed_worker_had
        external_jobs::passes_on_what_a_killed_worker_had
        external_jobs::takes_in_from_one_and_hands_out_to_the_other
        sealed::opens_what_we_seal_and_seals_what_we_open
        sealed::refuses_what_was_sealed_for_something_else
    }
    python = Python {
        producers::submits_what_we_read
        producers::says_what_is_missing
        workers::reads_what_we_send_and_reports
        workers::says_what_is_missing_to_work
        submissions::runs_once_what_is_submitted_twice
        external_jobs::keeps_what_workers_report
        external_jobs::keeps_a_long_job_with_its_worker
        external_jobs::hands_out_again_what_a_killed_worker_had
        external_jobs::passes_on_what_a_killed_worker_had
        external_jobs::takes_in_from_one_and_hands_out_to_the_other
        sealed::opens_what_we_seal_and_seals_what_we_open
        sealed::refuses_what_was_sealed_for_something_else
    }
}
