//! Keeps one connection up. See ADR 0023.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use lapin::Event;

use super::failure::Failure;
use super::hub::Hub;
use super::mode_tracker::{CLOSED, LinkState, Side};
use super::ownership;
use super::session::Session;
use crate::backoff::Reconnect;

/// Longest delay between two attempts.
const RECONNECT: Duration = Duration::from_secs(5);
/// The interval of checks whether the connection is alive, in case no event reports its end.
const LOOK: Duration = Duration::from_millis(250);

/// Keeps the connection up until `hang_up`.
pub(super) async fn run(hub: Arc<Hub>, side: Side) {
    let mut delays = Reconnect::new(RECONNECT);
    // The position among the addresses, and why those tried in this pass failed.
    let (mut at, mut reasons) = (0, Vec::new());
    let name = format!("jobwright {} {}", side.as_str(), std::process::id());
    loop {
        let started = Instant::now();
        let address = hub.addresses.at(at);
        at = (at + 1) % hub.addresses.len();
        let connecting = Session::connect(address, &name, hub.number(), hub.config.connect_timeout);
        let connected = tokio::select! {
            connected = connecting => connected,
            () = hub.hang_up.cancelled() => break,
        };
        let why = match connected {
            Ok(session) => {
                reasons.clear();
                let session = Arc::new(session);
                let why = attend(&hub, side, &session).await;
                hub.line(side).send_replace(None);
                // Before the session is closed, which can take a while.
                if let Some(why) = &why {
                    hub.mode_tracker.set(side, LinkState::Down(why.clone()));
                }
                session.close().await;
                let Some(why) = why else { break };
                why
            }
            Err(failure) => {
                let why = advice(&failure);
                if hub.addresses.len() == 1 {
                    hub.mode_tracker.set(side, LinkState::Down(why.clone()));
                    why
                } else {
                    tracing::debug!("broker {address} ({name}): {why}");
                    reasons.push(format!("{address}: {why}"));
                    hub.mode_tracker.set(side, LinkState::Down(reasons.join(", ")));
                    // There is reason to wait only when all addresses have been tried.
                    if reasons.len() < hub.addresses.len() {
                        continue;
                    }
                    std::mem::take(&mut reasons).join(", ")
                }
            }
        };
        // A connection that breaks at once is no reason to hurry.
        if started.elapsed() > RECONNECT {
            delays.reset();
        }
        let delay = delays.next_delay();
        tracing::debug!("broker {} ({name}): {why}; next attempt in {delay:?}", hub.addresses);
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = hub.hang_up.cancelled() => break,
        }
    }
    hub.mode_tracker.set(side, LinkState::Down(CLOSED.to_owned()));
}

/// Watches a connection. Returns the reason when it ends, and `None` when it is to hang up.
async fn attend(hub: &Hub, side: Side, session: &Arc<Session>) -> Option<String> {
    // The only listener of this connection: an event reaches only one.
    let mut events = pin!(session.connection().events_listener());
    let mut look = tokio::time::interval(LOOK);
    if side == Side::Consume {
        let mut member = hub.member.lock().await;
        if let Err(failure) = ownership::ask(hub, session, &mut member).await {
            return Some(failure.text());
        }
        // Still under the lock, so no executor of another installation slips in between.
        hub.line(side).send_replace(Some(session.clone()));
    } else {
        hub.line(side).send_replace(Some(session.clone()));
    }
    hub.mode_tracker.set(side, LinkState::Up);
    // Errors of channels arrive here too, and mean nothing for the connection.
    let mut last = None;
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            _ = look.tick() => None,
            () = hub.hang_up.cancelled() => return None,
        };
        match event {
            Some(Event::ConnectionBlocked(why)) => hub.mode_tracker.set(side, LinkState::Blocked(why)),
            Some(Event::ConnectionUnblocked) => hub.mode_tracker.set(side, LinkState::Up),
            Some(Event::Error(error)) if !error.is_amqp_soft_error() => last = Some(Failure::from(error)),
            _ => {}
        }
        if !session.connection().status().connected() {
            return Some(last.map_or_else(|| "the connection ended".to_owned(), |failure| advice(&failure)));
        }
    }
}

/// Returns the reason, with the advice where there is one.
fn advice(failure: &Failure) -> String {
    let why = failure.text();
    match hint(&why) {
        Some(hint) => format!("{why}; {hint}"),
        None => why,
    }
}

/// Returns advice about an answer of the broker. Several begin with the refusal of a vhost, and then give the cause.
fn hint(why: &str) -> Option<&'static str> {
    let why = why.to_ascii_lowercase();
    let says = |text: &str| why.contains(text);
    Some(if says("login was refused") || says("access_refused") {
        "check user and password in broker.url"
    } else if says("connection limit") {
        "close other connections, or raise the limit of the vhost or the user (`rabbitmqctl set_vhost_limits`, `set_user_limits`)"
    } else if says("vhost") && says("not found") {
        "check the vhost at the end of broker.url (`%2F` is the default one), or create it"
    } else if says("vhost") && says("is down") {
        "the broker's log says why; `rabbitmqctl restart_vhost` starts it again"
    } else if says("vhost") && says("refused") {
        "give the user permissions in this vhost"
    } else {
        return None;
    })
}

#[cfg(test)]
mod tests {
    use super::hint;

    /// The texts of RabbitMQ 3.10 to 4.1.
    #[test]
    fn a_refused_vhost_is_not_always_a_matter_of_rights() {
        let of = |cause: &str| hint(&format!("NOT_ALLOWED - access to vhost 'x' refused for user 'u'{cause}")).unwrap();
        assert!(of("").contains("permissions"));
        assert!(of(": connection limit (1) is reached").contains("limit of the vhost or the user"));
        assert!(
            hint("INTERNAL_ERROR - access to vhost 'x' refused for user 'u': vhost 'x' is down")
                .unwrap()
                .contains("restart_vhost")
        );
        assert!(hint("NOT_ALLOWED - vhost x not found").unwrap().contains("or create it"));
        assert_eq!(hint("CONNECTION_FORCED - the vhost was closed"), None);
    }
}
