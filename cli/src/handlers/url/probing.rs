//! Tries to connect to a URL that was left out, until that succeeds.

use std::sync::{Arc, Weak};

use super::client::Client;
use super::targets::{Target, Targets};

/// What a probe needs. It ends with the worker's handler.
pub(super) struct Probed {
    pub(super) targets: Targets,
    pub(super) client: Client,
}

/// Takes the URL in again after the first connection that succeeds.
pub(super) async fn until_reached(probed: Weak<Probed>, target: Arc<Target>) {
    let mut error: Option<String> = None;
    loop {
        tokio::time::sleep(target.next_pause(error.as_deref())).await;
        let Some(probed) = probed.upgrade() else { return };
        let (asked, tried) = (probed.clone(), target.clone());
        // The client blocks.
        let ended = tokio::task::spawn_blocking(move || asked.client.probe(&tried.url)).await;
        match ended {
            Ok(Ok(())) => return probed.targets.take_in(&target),
            Ok(Err(why)) => {
                tracing::debug!(url = target.place(), error = why, "this URL still can't be reached");
                error = Some(why);
            }
            // A panic. The URL must not stay out for that.
            Err(why) => error = Some(format!("the attempt to connect failed: {why}")),
        }
    }
}
