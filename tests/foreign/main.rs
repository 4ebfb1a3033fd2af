//! Programs in other languages against the wire contract: examples/java with RabbitMQ's Java client, examples/python with
//! pika. What they publish is read by the library's own codec, and what it writes is read by them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

mod broker;
mod programs;
#[path = "../support/mod.rs"]
mod support;

mod envelope;
mod producers;
mod workers;

/// Each case for each language. Further cases get a line here.
macro_rules! languages {
    ($($language:ident = $value:ident { $($module:ident :: $case:ident)* })*) => {
        $(mod $language {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let Some(stage) = crate::programs::Stage::set(crate::programs::Language::$value).await else { return };
                crate::$module::$case(&stage).await;
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
    }
    python = Python {
        producers::submits_what_we_read
        producers::says_what_is_missing
        workers::reads_what_we_send_and_reports
        workers::says_what_is_missing_to_work
    }
}
