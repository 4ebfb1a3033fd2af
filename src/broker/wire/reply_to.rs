//! Where a result may go. What is refused here is in the database already: it becomes a dead letter with the reason.

use super::Names;
use super::headers::short;
use crate::config::{BrokerConfig, allows};
use crate::job::{is_direct, is_reserved_by_broker};

/// How the queues of every installation end, whatever its prefix.
const RESERVED_ENDS: [&str; 4] = [".submit", ".reply", ".dead", ".rejected"];

/// How a result gets to who asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Like all other messages.
    Queue,
    /// To a client that waits without a queue of its own.
    Direct,
}

/// The address, if results may go there, and how.
pub(super) fn address<'a>(names: &Names, config: &BrokerConfig, to: &'a str) -> Result<(&'a str, Way), &'static str> {
    if to.is_empty() || short(to).is_none() {
        return Err("the message does not say where it is to go");
    }
    if is_reserved_by_broker(to) {
        return match (is_direct(to), config.direct_reply) {
            (true, true) => Ok((to, Way::Direct)),
            (true, false) => Err("broker.direct_reply is off"),
            (false, _) => Err("it is a name that the broker keeps for itself"),
        };
    }
    // Who may only submit must not be able to make us report, submit or deliver in their place.
    if is_ours(names, to) {
        return Err("it is a queue of this installation's own");
    }
    let allowed = match &config.reply_to {
        Some(patterns) => allows(patterns, to),
        // Nor in place of another installation that shares the vhost.
        None => !RESERVED_ENDS.iter().any(|end| to.ends_with(end)),
    };
    if allowed { Ok((to, Way::Queue)) } else { Err("broker.reply_to does not allow it") }
}

fn is_ours(names: &Names, queue: &str) -> bool {
    [names.submit(), names.rejected(), names.reply(), names.rejected_reports(), names.dead()]
        .iter()
        .any(|name| name == queue)
        || queue.starts_with(&names.deliveries(""))
        || queue.starts_with(&names.external(""))
}
