//! Makes sure that a transaction is open and not aborted, before this store writes in it or commits it.
//!
//! sqlx reports the commit of an aborted transaction as a success, as other drivers do. And it ends the whole transaction where the `begin` of a savepoint fails or is
//! cancelled: what follows would be committed statement by statement. So the removal of a job must not come first.

use tokio::time::timeout;
use tokio_postgres::error::SqlState;

use super::driver::{SqlxConnection, explain};
use super::probed::depth;
use super::sqlx::Executor as _;
use crate::conflict::sqlx_code;
use crate::error::{Error, ErrorKind, Result};
use crate::store::postgres::error::{ErrorContext, unanswered};

/// Refused where there is no transaction, and in one that is aborted. It leaves no savepoint: what follows would be a subtransaction with an id of its own.
const PROBE: &str = "savepoint jobwright; release savepoint jobwright";

impl SqlxConnection<'_> {
    /// Makes sure that there is a transaction to write into. One of the caller, of any depth, is only looked at, which takes no round trip: its commit is the
    /// caller's. One that a context commits is probed, unless that is done.
    pub(super) async fn probe(&mut self) -> Result<()> {
        let shared = self.shared;
        let label = &shared.label;
        let aborted = |why: String| Error::new(ErrorKind::Aborted, why);
        let depth = depth(self.connection);
        if depth == 0 {
            return Err(aborted(format!(
                "the transaction on {label} was over before its commit: a `begin` in it failed or was cancelled, by which sqlx rolls all of it back \
                 (if that happened inside a savepoint whose `commit` was called all the same, what came before it may be committed)"
            )));
        }
        let Some(probed) = self.probed.as_deref_mut().filter(|probed| !probed.is_open) else { return Ok(()) };
        if depth > 1 {
            return Err(aborted(format!(
                "the transaction on {label} has a savepoint that is still open: end what `begin` returned before the commit"
            )));
        }
        let context = ErrorContext { what: "go on with a transaction", label };
        probed.asks();
        let error = match timeout(shared.call_timeout, self.connection.execute(PROBE)).await {
            Ok(Ok(_)) => {
                probed.answered(None);
                probed.is_open = true;
                return Ok(());
            }
            Ok(Err(error)) if sqlx_code(&error) == Some(SqlState::NO_ACTIVE_SQL_TRANSACTION) => {
                probed.answered(None);
                let why = "a statement inside it ended it (COMMIT or ROLLBACK)";
                return Err(
                    aborted(format!("the transaction on {label} was over before its commit: {why}")).with_source(error)
                );
            }
            Ok(Err(error)) => explain(context, error),
            Err(_) => context.timeout(shared.call_timeout),
        };
        probed.answered(Some(&error));
        if unanswered(&error) {
            let why = format!("the connection to {label} was lost before the commit was sent; nothing was kept");
            return Err(aborted(why).with_source(error));
        }
        // Of a statement before, for example one that the application has cancelled: its error comes now.
        Err(error)
    }
}
