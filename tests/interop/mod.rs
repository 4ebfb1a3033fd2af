//! Programs in other languages against the wire contract: examples/java with RabbitMQ's Java client, examples/python with pika. The library's codec
//! reads what they publish, and they read what it writes. Then the same runs with one of our nodes on a database and a broker.

mod broker;
mod envelope;
mod external_jobs;
mod producers;
pub(crate) mod programs;
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
        producers::submits_jobs_that_we_read
        producers::missing_parts_are_named
        workers::reads_our_messages_and_reports
        workers::names_the_missing_tools
        submissions::a_job_submitted_twice_runs_once
        external_jobs::keeps_the_reports_of_workers
        external_jobs::keeps_a_long_job_with_its_worker
        external_jobs::hands_out_the_jobs_of_a_killed_worker_again
        external_jobs::passes_on_the_jobs_of_a_killed_worker
        external_jobs::takes_in_from_one_and_hands_out_to_the_other
        sealed::opens_our_sealed_payloads_and_seals_payloads_that_we_open
        sealed::refuses_payloads_sealed_for_another_job
    }
    python = Python {
        producers::submits_jobs_that_we_read
        producers::missing_parts_are_named
        workers::reads_our_messages_and_reports
        workers::names_the_missing_tools
        submissions::a_job_submitted_twice_runs_once
        external_jobs::keeps_the_reports_of_workers
        external_jobs::keeps_a_long_job_with_its_worker
        external_jobs::hands_out_the_jobs_of_a_killed_worker_again
        external_jobs::passes_on_the_jobs_of_a_killed_worker
        external_jobs::takes_in_from_one_and_hands_out_to_the_other
        sealed::opens_our_sealed_payloads_and_seals_payloads_that_we_open
        sealed::refuses_payloads_sealed_for_another_job
    }
}
