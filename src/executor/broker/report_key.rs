//! The key of reports, read once for all tasks that need it.

use tokio::sync::OnceCell;

use crate::error::Result;
use crate::executor::node::Node;
use crate::job::ReportKey;

/// The key, cached for one node session.
#[derive(Default)]
pub(crate) struct CachedReportKey(OnceCell<ReportKey>);

impl CachedReportKey {
    /// Returns the key, from the database unless it was read before.
    pub(crate) async fn get(&self, node: &Node) -> Result<&ReportKey> {
        self.0.get_or_try_init(|| node.store.report_key()).await
    }
}
