//! Prints a notice when a wait takes longer than people expect.

use std::time::Duration;

use crate::config::Settings;
use crate::output::say;

/// Time until the notice.
const SOON: Duration = Duration::from_millis(800);

/// Waits for the database, which has its own deadline, and prints a notice if that takes a while.
pub(crate) async fn with_slow_notice<T>(settings: &Settings, waiting: impl Future<Output = T>) -> T {
    tokio::pin!(waiting);
    if let Ok(done) = tokio::time::timeout(SOON, &mut waiting).await {
        return done;
    }
    let url = &settings.database.url;
    say(format!("the database {url} does not answer; still waiting, within the deadlines of `[database]`"));
    waiting.await
}
