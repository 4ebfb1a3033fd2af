//! A connection that nothing else uses, for messages that may end it.

use std::sync::atomic::Ordering;

use lapin::Channel;

use super::hub::Hub;
use super::session::Session;

/// It connects when the first channel is opened, and again after the broker has ended it.
pub(super) struct DedicatedConnection<'b> {
    hub: &'b Hub,
    /// What it is for, in the name that the broker shows.
    purpose: &'static str,
    session: Option<Session>,
}

impl<'b> DedicatedConnection<'b> {
    pub(super) fn new(hub: &'b Hub, purpose: &'static str) -> Self {
        Self { hub, purpose, session: None }
    }

    /// Opens a channel. `None`: the broker does not answer, or refuses.
    pub(super) async fn channel(&mut self) -> Option<Channel> {
        // One that has just ended may not know it yet.
        if let Some(session) = self.session.take()
            && session.connection().status().connected()
            && let Ok(channel) = session.channel().await
        {
            self.session = Some(session);
            return Some(channel);
        }
        let session = self.connect().await?;
        match session.channel().await {
            Ok(channel) => {
                self.session = Some(session);
                Some(channel)
            }
            Err(failure) => {
                tracing::debug!("no channel on the connection for {}: {}", self.purpose, failure.text());
                None
            }
        }
    }

    /// Connects to the first of the addresses that answers.
    async fn connect(&self) -> Option<Session> {
        let hub = self.hub;
        let name = format!("jobwright {} {}", self.purpose, std::process::id());
        let mut refused = String::new();
        for at in 0..hub.addresses.len() {
            match Session::connect(hub.addresses.at(at), &name, hub.number(), hub.rpc()).await {
                Ok(session) => {
                    hub.no_more_connections.store(false, Ordering::Relaxed);
                    return Some(session);
                }
                Err(failure) => refused = failure.text(),
            }
        }
        // Logged once: where the broker limits connections, every later attempt may fail too.
        if hub.mode_tracker.is_up() && !hub.no_more_connections.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "broker {} is up, but refuses another connection ({refused}): messages that need a separate one ({}) wait until it accepts one",
                hub.addresses,
                self.purpose
            );
        }
        None
    }

    pub(super) async fn close(self) {
        if let Some(session) = self.session {
            session.close().await;
        }
    }
}
