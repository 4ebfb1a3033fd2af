//! The flush.

use std::collections::HashSet;
use std::sync::Arc;

use uuid::Uuid;

use super::Shared;
use super::batch::Batch;
use super::columns::{Columns, Texts};
use super::error::{Doing, unanswered};
use super::unique::{Keys, given};
use crate::error::Result;
use crate::job::JobMessage;
use crate::store::unique::Taken;
use crate::store::{Inserted, Preclaim};

/// What an insert in a transaction of its own is called.
const FLUSH_ALONE: &str = "insert job messages";

/// Inserts in a transaction of its own.
pub(super) async fn insert(
    shared: &Arc<Shared>,
    messages: &[JobMessage],
    owned: Option<&Preclaim>,
) -> Result<Inserted> {
    if messages.is_empty() {
        return Ok(Inserted::default());
    }
    let texts = Texts::new(messages);
    if messages.iter().any(|message| message.terms.unique.is_some()) {
        return insert_unique(shared, messages, &texts, owned).await;
    }
    let parts = Columns::of_each(messages, &texts, owned, &HashSet::new());
    if let [columns] = parts.as_slice() {
        let rows = shared.engine_commit(FLUSH_ALONE, columns.statement(&shared.sql), &columns.params()).await?;
        return Ok(columns.read(&rows)?.0);
    }
    finish(shared, Batch::begin(shared, FLUSH_ALONE).await?, &parts).await
}

/// The given ids of what is written by several statements, which have to be decided at once before the first of them; `None`: there are
/// none, or one statement decides.
pub(super) fn in_parts(parts: &[Columns<'_>]) -> Option<Vec<Uuid>> {
    if parts.len() < 2 {
        return None;
    }
    let ids: Vec<Uuid> = parts.iter().flat_map(Columns::given).collect();
    (!ids.is_empty()).then_some(ids)
}

/// Writes all parts, and commits.
async fn finish(shared: &Arc<Shared>, batch: Batch, parts: &[Columns<'_>]) -> Result<Inserted> {
    let mut inserted = Inserted::default();
    if let Some(ids) = in_parts(parts) {
        batch.query(&shared.sql.decide_ids, &[&ids]).await?;
    }
    for columns in parts {
        let rows = batch.query(columns.statement(&shared.sql), &columns.params()).await?;
        inserted.add(columns.read(&rows)?.0);
    }
    let doing = Doing { what: FLUSH_ALONE, place: &shared.place };
    batch.commit().await.map_err(|error| if unanswered(&error) { doing.commit_unknown(error) } else { error })?;
    Ok(inserted)
}

/// With a question for keys in front.
async fn insert_unique(
    shared: &Arc<Shared>,
    messages: &[JobMessage],
    texts: &Texts,
    owned: Option<&Preclaim>,
) -> Result<Inserted> {
    let batch = Batch::begin(shared, FLUSH_ALONE).await?;
    let known = match given(messages) {
        Some(ids) => batch.query(&shared.sql.known_ids, &[&ids]).await?,
        None => Vec::new(),
    };
    let taken = match Keys::new(messages, &known) {
        Ok(Some(keys)) => keys.read(&batch.query(&shared.sql.take_unique, &keys.params()).await?),
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
    let parts = Columns::of_each(messages, texts, owned, &taken.skip);
    Ok(Inserted { kept: taken.kept, ..finish(shared, batch, &parts).await? })
}
