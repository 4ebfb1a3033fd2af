//! The key of reports, read once for all tasks that need it.

use tokio::sync::OnceCell;

use super::NodeSession;
use crate::error::Result;
use crate::job::ReportKey;
use crate::store::Store;

/// The key, cached for one node session.
#[derive(Default)]
pub(super) struct CachedReportKey(OnceCell<ReportKey>);

impl CachedReportKey {
    /// Returns the key, from the database unless it was read before.
    pub(super) async fn get<S: Store>(&self, node: &NodeSession<S>) -> Result<&ReportKey> {
        self.0.get_or_try_init(|| node.store.report_key()).await
    }
}
