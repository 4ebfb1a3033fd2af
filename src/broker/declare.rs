//! Declares queues and exchanges, or checks whether they exist.
//!
//! Every refusal closes the channel it came on, so each check has its own channel.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::FieldTable;

use super::failure::{CLOSING, Failure, short, within};
use super::hub::Hub;
use super::message::{Depth, QueueRole};
use super::mode_tracker::Side;
use super::topology::{self, Declaration, Made, TopologyItem, TopologyState};
use crate::error::{Error, ErrorKind, Result};

/// Makes sure that the queues of a role exist. This costs nothing if they were seen before on this connection.
pub(super) async fn ensure(hub: &Hub, role: &QueueRole) -> Result<()> {
    let session = hub.session(Side::Consume).map_err(|failure| failure.into_error("look at the broker's queues"))?;
    let now = (session.number, hub.doubts.load(Ordering::Relaxed));
    let mut known = hub.ensured.lock().await;
    if known.0 != now {
        *known = (now, HashSet::new());
    }
    if known.1.contains(role) {
        return Ok(());
    }
    for part in topology::role(&hub.config, &hub.names, role) {
        ensure_part(hub, &part).await?;
    }
    known.1.insert(role.clone());
    Ok(())
}

/// Makes sure that a queue of this installation can be consumed. Remembers nothing, because it is called when the queue has just gone.
pub(super) async fn ensure_queue(hub: &Hub, queue: &str) -> Result<()> {
    hub.doubts.fetch_add(1, Ordering::Relaxed);
    for part in topology::queue(&hub.config, &hub.names, queue).unwrap_or_default() {
        ensure_part(hub, &part).await?;
    }
    Ok(())
}

async fn ensure_part(hub: &Hub, part: &Declaration) -> Result<()> {
    let item = part.item(TopologyState::Missing);
    match look(hub, part).await {
        Ok(()) => return Ok(()),
        Err(Failure::Missing(_)) if hub.config.declare => {}
        Err(Failure::Missing(_)) => {
            return Err(Error::new(
                ErrorKind::Broker,
                format!(
                    "the broker has no {} {:?}, and broker.declare is off: run `jobwright broker apply` once as a user who \
                     may configure it",
                    item.kind, item.name
                ),
            ));
        }
        Err(failure) => return Err(explain(part, failure)),
    }
    declare(hub, part).await.map_err(|failure| explain(part, failure))?;
    tracing::debug!("declared the {} {}", item.kind, item.name);
    Ok(())
}

/// Adds to a failure what to do about it.
fn explain(part: &Declaration, failure: Failure) -> Error {
    let item = part.item(TopologyState::Missing);
    let tried = format!("declare the {} {:?}", item.kind, item.name);
    let (why, todo) = match failure {
        Failure::Differs(why) => (
            why,
            "it exists with other settings: delete it when it is empty, or set broker.depth and broker.queue_type to its settings",
        ),
        Failure::Forbidden(why) => (
            why,
            "give the user the right to configure, write and read names that begin with the prefix, or run `jobwright broker apply` as a user who \
             has it and set broker.declare to false",
        ),
        other => return other.into_error(&tried),
    };
    Error::new(ErrorKind::Broker, format!("can't {tried}: {why}; {todo}"))
}

/// Declares all items and returns their states.
pub(super) async fn apply(hub: &Hub, parts: Vec<Declaration>) -> Result<Vec<TopologyItem>> {
    let mut items = Vec::new();
    for part in parts {
        let state = match look(hub, &part).await {
            Ok(()) => compare(hub, &part).await?,
            Err(Failure::Missing(_)) => state(declare(hub, &part).await, TopologyState::Created)?,
            Err(failure) => state(Err(failure), TopologyState::Present)?,
        };
        items.push(part.item(state));
    }
    Ok(items)
}

/// Returns the states of all items and changes nothing.
pub(super) async fn check(hub: &Hub, parts: Vec<Declaration>) -> Result<Vec<TopologyItem>> {
    let mut items = Vec::new();
    for part in parts {
        let state = match look(hub, &part).await {
            Ok(()) => compare(hub, &part).await?,
            Err(Failure::Missing(_)) => TopologyState::Missing,
            Err(failure) => state(Err(failure), TopologyState::Present)?,
        };
        items.push(part.item(state));
    }
    Ok(items)
}

/// Returns the state of an item that exists. Only declaring it as it should be makes the broker compare it.
async fn compare(hub: &Hub, part: &Declaration) -> Result<TopologyState> {
    match declare(hub, part).await {
        // Without the permission to declare, only its existence is visible.
        Err(Failure::Forbidden(_)) => Ok(TopologyState::Present),
        // A queue's arguments can't be changed, and the queue may be in use, with messages in it.
        Err(Failure::Differs(why)) => match part.earlier() {
            Some(earlier) => match declare(hub, &earlier).await {
                Err(Failure::Differs(_)) => Ok(TopologyState::Differs(why)),
                other => state(other, TopologyState::Unlimited),
            },
            None => Ok(TopologyState::Differs(why)),
        },
        other => state(other, TopologyState::Present),
    }
}

fn state(outcome: Result<(), Failure>, good: TopologyState) -> Result<TopologyState> {
    match outcome {
        Ok(()) => Ok(good),
        Err(Failure::Differs(why)) => Ok(TopologyState::Differs(why)),
        Err(Failure::Forbidden(why)) => Ok(TopologyState::Forbidden(why)),
        Err(failure) => Err(failure.into_error("look at the broker's queues")),
    }
}

/// Checks whether it exists.
async fn look(hub: &Hub, part: &Declaration) -> Result<(), Failure> {
    run(hub, part, true).await
}

async fn declare(hub: &Hub, part: &Declaration) -> Result<(), Failure> {
    run(hub, part, false).await
}

async fn run(hub: &Hub, part: &Declaration, passive: bool) -> Result<(), Failure> {
    let channel = hub.session(Side::Consume)?.channel().await?;
    let name = short(&part.name)?;
    match &part.made {
        Made::Exchange(kind) => {
            let options = ExchangeDeclareOptions { passive, durable: true, ..ExchangeDeclareOptions::default() };
            let call = channel.exchange_declare(name, kind.clone(), options, FieldTable::default());
            within(hub.rpc(), call).await?;
        }
        Made::Queue { arguments, bound, .. } => {
            let options = QueueDeclareOptions { passive, ..QueueDeclareOptions::durable() };
            within(hub.rpc(), channel.queue_declare(name.clone(), options, arguments.clone())).await?;
            if let Some(exchange) = bound.as_deref().filter(|_| !passive) {
                let options = QueueBindOptions::default();
                let call = channel.queue_bind(name, short(exchange)?, "".into(), options, FieldTable::default());
                within(hub.rpc(), call).await?;
            }
        }
    }
    let _ = within(CLOSING, channel.close(200, "OK".into())).await;
    Ok(())
}

/// Returns the number of messages and consumers of a queue.
pub(super) async fn depth(hub: &Hub, queue: &str) -> Result<Option<Depth>> {
    let tried = || format!("look at the queue {queue:?}");
    let mut asking = hub.asking.lock().await;
    let answer = async {
        let name = short(queue)?;
        let session = hub.session(Side::Consume)?;
        let channel = match asking.take() {
            Some((number, channel)) if number == session.number && channel.status().connected() => channel,
            _ => session.channel().await?,
        };
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
        let state = within(hub.rpc(), channel.queue_declare(name, options, FieldTable::default())).await?;
        *asking = Some((session.number, channel));
        Ok(Depth { messages: state.message_count(), consumers: state.consumer_count() })
    };
    match answer.await {
        Ok(depth) => Ok(Some(depth)),
        // The error closed the channel too.
        Err(Failure::Missing(_)) => {
            // The next `ensure` has to check the queue again.
            if let Some(role) = topology::role_of(&hub.names, queue) {
                hub.ensured.lock().await.1.remove(&role);
            }
            Ok(None)
        }
        Err(failure) => Err(failure.into_error(&tried())),
    }
}
