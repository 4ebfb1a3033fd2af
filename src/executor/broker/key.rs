//! The key of reports, read once for all who need it.

use tokio::sync::OnceCell;

use super::Incarnation;
use crate::error::Result;
use crate::job::ReportKey;
use crate::store::Store;

/// Of one incarnation.
#[derive(Default)]
pub(super) struct Key(OnceCell<ReportKey>);

impl Key {
    /// From the database, unless it was read before.
    pub(super) async fn get<S: Store>(&self, node: &Incarnation<S>) -> Result<&ReportKey> {
        self.0.get_or_try_init(|| node.store.report_key()).await
    }
}
