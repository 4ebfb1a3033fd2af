//! Where a result may be sent. Results refused here are in the database already: they become dead letters with the reason.

use super::Names;
use super::headers::short;
use crate::config::{BrokerConfig, allows};
use crate::job::{is_direct, is_reserved_by_broker};

/// The endings of the queue names of every installation, whatever its prefix.
const RESERVED_ENDS: [&str; 4] = [".submit", ".reply", ".dead", ".rejected"];

/// How a result gets to the client that asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyRoute {
    /// As all other messages.
    Queue,
    /// To a client that waits without its own queue.
    Direct,
}

/// Returns the address, if results may be sent there, and how.
pub(super) fn address<'a>(
    names: &Names,
    config: &BrokerConfig,
    to: &'a str,
) -> Result<(&'a str, ReplyRoute), &'static str> {
    if to.is_empty() || short(to).is_none() {
        return Err("the name of the queue is empty or too long");
    }
    if is_reserved_by_broker(to) {
        return match (is_direct(to), config.direct_reply) {
            (true, true) => Ok((to, ReplyRoute::Direct)),
            (true, false) => Err("broker.direct_reply is off"),
            (false, _) => Err("it is a name that the broker keeps for itself"),
        };
    }
    // A client that may only submit must not be able to make this program report, submit or deliver for it.
    if is_ours(names, to) {
        return Err("it is a queue of this installation's own");
    }
    let allowed = match &config.reply_to {
        Some(patterns) => allows(patterns, to),
        // Nor for another installation that shares the vhost.
        None => !RESERVED_ENDS.iter().any(|end| to.ends_with(end)),
    };
    if allowed { Ok((to, ReplyRoute::Queue)) } else { Err("broker.reply_to does not allow it") }
}

fn is_ours(names: &Names, queue: &str) -> bool {
    [names.submit(), names.rejected(), names.reply(), names.rejected_reports(), names.dead()]
        .iter()
        .any(|name| name == queue)
        || queue.starts_with(&names.deliveries(""))
        || queue.starts_with(&names.external(""))
}
