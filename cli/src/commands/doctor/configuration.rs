//! What is configured, and what does not fit together.

use super::Finding;
use crate::config::Settings;

const CHECK: &str = "configuration";

pub(super) fn check(settings: &Settings) -> Vec<Finding> {
    let own = settings.own_queues().join(", ");
    let kinds = settings.handlers.len();
    let mut findings = vec![Finding::ok(CHECK, format!("readable; queues run here: {}; {kinds} handlers", dash(&own)))];
    let external: Vec<&str> = settings.external_queues().map(jobwright::ExternalQueue::name).collect();
    if settings.broker.url.is_none() {
        if !external.is_empty() {
            findings.push(Finding::fail(
                CHECK,
                format!("queues for external workers ({}) and no broker", external.join(", ")),
                "set `broker.url` (AMQP_URL), or remove `external = true`",
            ));
        }
        if settings.broker.required {
            findings.push(Finding::fail(
                CHECK,
                "`broker.required` is set, and there is no `broker.url`",
                "set `broker.url` (AMQP_URL), or remove `required`",
            ));
        }
    }
    if settings.handlers.is_empty() {
        findings.push(Finding::warn(
            CHECK,
            "no handlers: `jobwright worker` would run nothing",
            "none is needed to send; else name some in `[handlers.KIND]`, see `jobwright worker --help`",
        ));
    }
    findings
}

fn dash(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}
