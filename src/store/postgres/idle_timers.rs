//! Timers that no statement can carry on, such as one whose queue has a name that no index takes. Each becomes a dead letter, so that the
//! others go on (see [`unreadable`](super::unreadable)).

use std::sync::Arc;

use tokio_postgres::Row;
use uuid::Uuid;

use super::client::Params;
use super::halves::Named;
use super::rows;
use super::shared::Shared;
use super::unreadable::NO_NODE;
use crate::error::Result;
use crate::job::JobId;

/// A timer, as it was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct IdleTimer {
    id: JobId,
    /// Unique to the row. A job that is sent again may have the same id.
    seq: i64,
}

impl Named for IdleTimer {
    fn id(&self) -> Uuid {
        self.id.into()
    }
}

impl IdleTimer {
    pub(super) fn read(row: &Row) -> Result<Self> {
        Ok(Self { id: JobId::from(rows::get::<Uuid>(row, "id")?), seq: rows::get(row, "seq")? })
    }

    /// Makes it a dead letter, or parks it. Returns `false` if it is still where it was, or another process was faster. One that can't even
    /// be parked is logged and left.
    pub(super) async fn dead_letter(self, shared: &Arc<Shared>, why: &str) -> Result<bool> {
        let Self { id, seq } = self;
        let error = match bury(shared, &[self], why).await {
            Ok(gone) => {
                if gone > 0 {
                    tracing::error!(%id, "{why}; the timer became a dead letter");
                }
                return Ok(gone > 0);
            }
            Err(error) if error.is_retryable() => return Err(error),
            Err(error) => error,
        };
        match shared.engine("set a timer aside", &shared.sql.park_timer, &[id.as_uuid(), &seq]).await {
            Ok(parked) => {
                if !parked.is_empty() {
                    tracing::error!(
                        %id, %error,
                        "{why}; the timer could not even be made a dead letter, and waits in a queue whose name begins with `unreadable:`",
                    );
                }
                Ok(!parked.is_empty())
            }
            Err(error) if error.is_retryable() => Err(error),
            Err(error) => {
                tracing::error!(%id, %error, "{why}; the timer can't be moved at all: delete it");
                Ok(false)
            }
        }
    }
}

/// Returns the ids as a parameter.
pub(super) fn ids(timers: &[IdleTimer]) -> Vec<Uuid> {
    timers.iter().map(|timer| timer.id.into()).collect()
}

/// Makes dead letters of timers, each only if it is the row that was found. Returns how many there were.
pub(super) async fn bury(shared: &Arc<Shared>, timers: &[IdleTimer], why: &str) -> Result<usize> {
    let seqs: Vec<i64> = timers.iter().map(|timer| timer.seq).collect();
    let params: Params<'_> = &[&ids(timers), &seqs, &vec![why; timers.len()], &NO_NODE.0];
    let gone =
        shared.engine("dead-letter timers that can't be carried on", &shared.sql.dead_letter_timers, params).await?;
    Ok(gone.len())
}
