//! Inserts the messages of a flush.

use std::collections::HashSet;
use std::sync::Arc;

use tokio_postgres::Row;

use super::client::Params;
use super::columns::{GivenIds, MessageColumns, Texts, other_jobs};
use super::engine_transaction::EngineTransaction;
use super::error::{ErrorContext, unanswered};
use super::shared::Shared;
use super::statements::Statement;
use super::unique::{Keys, given};
use crate::error::{Error, Result};
use crate::job::JobMessage;
use crate::store::given_ids::{refuse, refuse_twice};
use crate::store::unique::Taken;
use crate::store::{Inserted, Preclaim};

/// Names an insert in its own transaction in error messages.
const FLUSH_ALONE: &str = "insert job messages";

/// Inserts in its own transaction.
pub(super) async fn insert(
    shared: &Arc<Shared>,
    messages: &[JobMessage],
    owned: Option<&Preclaim>,
) -> Result<Inserted> {
    if messages.is_empty() {
        return Ok(Inserted::default());
    }
    refuse_twice(messages)?;
    let texts = Texts::new(messages);
    if messages.iter().any(|message| message.options.unique.is_some()) {
        return insert_unique(shared, messages, &texts, owned).await;
    }
    let parts = MessageColumns::of_each(messages, &texts, owned, &HashSet::new());
    if let [columns] = parts.as_slice() {
        let rows = shared.engine_commit(FLUSH_ALONE, columns.statement(&shared.sql), &columns.params()).await?;
        return Ok(columns.read(&rows)?.0);
    }
    finish(shared, begin(shared).await?, messages, &parts).await
}

/// Returns the given ids if several statements write the messages. These ids must all be locked before the first statement. Returns `None`
/// if no ids were given, or if a single statement handles them all.
pub(super) fn in_parts<'a>(messages: &'a [JobMessage], parts: &[MessageColumns<'_>]) -> Option<GivenIds<'a>> {
    if parts.len() < 2 { None } else { GivenIds::of(messages) }
}

/// Begins a flush of several statements. Until its commit nothing is kept, whatever becomes of it.
async fn begin(shared: &Arc<Shared>) -> Result<EngineTransaction> {
    EngineTransaction::begin(shared, FLUSH_ALONE).await.map_err(Error::keeping_nothing)
}

/// Runs a statement of such a flush.
async fn query(batch: &EngineTransaction, statement: &Statement, params: Params<'_>) -> Result<Vec<Row>> {
    batch.query(statement, params).await.map_err(Error::keeping_nothing)
}

/// Runs all statements, and commits.
async fn finish(
    shared: &Arc<Shared>,
    batch: EngineTransaction,
    messages: &[JobMessage],
    parts: &[MessageColumns<'_>],
) -> Result<Inserted> {
    let mut inserted = Inserted::default();
    let mut refused = Ok(());
    if let Some(given) = in_parts(messages, parts) {
        refused = refuse(&other_jobs(&query(&batch, &shared.sql.lock_ids, &given.params()).await?)?);
    }
    for columns in parts {
        if refused.is_err() {
            break;
        }
        let rows = query(&batch, columns.statement(&shared.sql), &columns.params()).await?;
        refused = columns.read(&rows).map(|(more, _)| inserted.add(more));
    }
    if let Err(refusal) = refused {
        batch.roll_back().await?;
        return Err(refusal);
    }
    let context = ErrorContext { what: FLUSH_ALONE, label: &shared.label };
    batch.commit().await.map_err(|error| if unanswered(&error) { context.commit_unknown(error) } else { error })?;
    Ok(inserted)
}

/// Inserts after asking for unique keys.
async fn insert_unique(
    shared: &Arc<Shared>,
    messages: &[JobMessage],
    texts: &Texts,
    owned: Option<&Preclaim>,
) -> Result<Inserted> {
    let batch = begin(shared).await?;
    let known = match given(messages) {
        Some(given) => query(&batch, &shared.sql.known_ids, &given.params()).await?,
        None => Vec::new(),
    };
    let taken = match Keys::new(messages, &known) {
        Ok(Some(keys)) => keys.read(&query(&batch, &shared.sql.take_unique, &keys.params()).await?),
        Ok(None) => Ok(Taken::default()),
        Err(conflict) => Err(conflict),
    };
    let taken = match taken {
        Ok(taken) => taken,
        Err(conflict) => {
            batch.roll_back().await?;
            return Err(conflict);
        }
    };
    let parts = MessageColumns::of_each(messages, texts, owned, &taken.skip);
    let mut inserted = finish(shared, batch, messages, &parts).await?;
    inserted.add(taken.reported());
    Ok(inserted)
}
