//! Says what is waited for, when it takes longer than a person expects.

use std::time::Duration;

use crate::config::Settings;
use crate::output::say;

/// After this long it is said.
const SOON: Duration = Duration::from_millis(800);

/// Waits for the database, which has a deadline of its own, and says so if that takes a while.
pub(crate) async fn patiently<T>(settings: &Settings, waiting: impl Future<Output = T>) -> T {
    tokio::pin!(waiting);
    if let Ok(done) = tokio::time::timeout(SOON, &mut waiting).await {
        return done;
    }
    let url = &settings.database.url;
    say(format!("the database {url} does not answer; still waiting, within the deadlines of `[database]`"));
    waiting.await
}
