//! Declares queues and exchanges, or looks whether they are there.
//!
//! Every refusal closes the channel it was said on, so each question has a channel of its own.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::FieldTable;

use super::failure::{CLOSING, Failure, short, within};
use super::hub::Hub;
use super::message::{Depth, Lane};
use super::mode::Side;
use super::topology::{self, Made, Part, TopologyItem, TopologyState};
use crate::error::{Error, ErrorKind, Result};

/// Makes sure that a lane is there; costs nothing when it was seen before on this connection.
pub(super) async fn ensure(hub: &Hub, lane: &Lane) -> Result<()> {
    let session = hub.session(Side::Consume).map_err(|failure| failure.into_error("look at the broker's queues"))?;
    let now = (session.number, hub.doubts.load(Ordering::Relaxed));
    let mut known = hub.ensured.lock().await;
    if known.0 != now {
        *known = (now, HashSet::new());
    }
    if known.1.contains(lane) {
        return Ok(());
    }
    for part in topology::lane(&hub.config, &hub.names, lane) {
        ensure_part(hub, &part).await?;
    }
    known.1.insert(lane.clone());
    Ok(())
}

/// Makes sure that a queue of ours can be consumed. Remembers nothing: it is asked when the queue has just gone.
pub(super) async fn ensure_queue(hub: &Hub, queue: &str) -> Result<()> {
    hub.doubts.fetch_add(1, Ordering::Relaxed);
    for part in topology::queue(&hub.config, &hub.names, queue).unwrap_or_default() {
        ensure_part(hub, &part).await?;
    }
    Ok(())
}

async fn ensure_part(hub: &Hub, part: &Part) -> Result<()> {
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

/// What to do about it.
fn explain(part: &Part, failure: Failure) -> Error {
    let item = part.item(TopologyState::Missing);
    let tried = format!("declare the {} {:?}", item.kind, item.name);
    let (why, todo) = match failure {
        Failure::Differs(why) => (
            why,
            "it exists with other settings: delete it when it is empty, or set broker.depth and \
             broker.queue_type to what it has",
        ),
        Failure::Forbidden(why) => (
            why,
            "give the user the right to configure, write and read names that begin with the \
             prefix, or run `jobwright broker apply` as one who has it and set broker.declare to false",
        ),
        other => return other.into_error(&tried),
    };
    Error::new(ErrorKind::Broker, format!("can't {tried}: {why}; {todo}"))
}

/// Declares all and says what came of each.
pub(super) async fn apply(hub: &Hub, parts: Vec<Part>) -> Result<Vec<TopologyItem>> {
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

/// Says how each stands and changes nothing.
pub(super) async fn check(hub: &Hub, parts: Vec<Part>) -> Result<Vec<TopologyItem>> {
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

/// Of one that is there: declaring it as it should be is how the broker can be asked whether it is so.
async fn compare(hub: &Hub, part: &Part) -> Result<TopologyState> {
    match declare(hub, part).await {
        // Who may not declare can't see more than that it is there.
        Err(Failure::Forbidden(_)) => Ok(TopologyState::Present),
        // The arguments of a queue can't be changed, and it may be in use, with messages in it.
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

/// Whether it is there.
async fn look(hub: &Hub, part: &Part) -> Result<(), Failure> {
    run(hub, part, true).await
}

async fn declare(hub: &Hub, part: &Part) -> Result<(), Failure> {
    run(hub, part, false).await
}

async fn run(hub: &Hub, part: &Part, passive: bool) -> Result<(), Failure> {
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

/// What waits in a queue.
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
        // It took the channel with it.
        Err(Failure::Missing(_)) => {
            // Whoever made sure of it before is to do so again.
            if let Some(lane) = topology::lane_of(&hub.names, queue) {
                hub.ensured.lock().await.1.remove(&lane);
            }
            Ok(None)
        }
        Err(failure) => Err(failure.into_error(&tried())),
    }
}
