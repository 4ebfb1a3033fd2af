//! Puts jobs in, and tells executors of them.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use tokio_postgres::Row;

use super::client::Params;
use super::columns::{MessageColumns, Texts, in_parts, other_jobs};
use super::database::Postgres;
use super::engine_transaction::EngineTransaction;
use super::error::{ErrorContext, unanswered};
use super::parts::in_parts_of;
use super::shared::Shared;
use super::statements::Statement;
use super::unique::{Keys, given};
use super::{hints, receive, rows, rules, send};
use crate::error::{Error, Result};
use crate::job::{JobId, JobMessage, Submission};
use crate::store::given_ids::{refuse, refuse_twice};
use crate::store::queue_capacity::Depths;
use crate::store::unique::Taken;
use crate::store::{Enqueue, FullQueue, Hint, HintStream, Inserted, Preclaim, Received};

/// Names an insert in its own transaction in error messages.
const FLUSH_ALONE: &str = "insert job messages";

#[async_trait]
impl Enqueue for Postgres {
    async fn insert(&self, messages: &[JobMessage], owned: Option<&Preclaim>) -> Result<Inserted> {
        insert(&self.0, messages, owned).await
    }

    async fn receive(&self, submissions: &[Submission]) -> Result<Vec<Received>> {
        receive::receive(&self.0, submissions).await
    }

    fn send_by_sql(&self, message: &JobMessage, largest: usize) -> Result<Option<(String, String)>> {
        send::by_sql(&self.0, message, largest).map(Some)
    }

    async fn full(&self, queues: &[&str]) -> Result<Vec<FullQueue>> {
        let limited = depths(&self.0).await?.of(queues);
        if limited.is_empty() {
            return Ok(Vec::new());
        }
        let (names, depths): (Vec<&str>, Vec<i64>) =
            limited.into_iter().map(|(name, depth)| (name, i64::try_from(depth).unwrap_or(i64::MAX))).unzip();
        let rows = self.0.engine("check whether queues are full", &self.0.sql.full_queues, &[&names, &depths]).await?;
        rows.iter()
            .map(|row| {
                Ok(FullQueue { queue: rows::get(row, "name")?, depth: rows::get::<i64>(row, "depth")?.unsigned_abs() })
            })
            .collect()
    }

    async fn unhide(&self, ids: &[JobId]) -> Result<Vec<String>> {
        let ids: Vec<_> = ids.iter().map(|id| *id.as_uuid()).collect();
        let tried = "end the head start of deliveries";
        let mut queues = Vec::new();
        for row in in_parts_of(&self.0, tried, (&self.0.sql.unhide, &[]), &ids).await?.0.iter().flatten() {
            let queue: String = rows::get(row, 0)?;
            if !queues.contains(&queue) {
                queues.push(queue);
            }
        }
        Ok(queues)
    }

    async fn notify(&self, hints: &[Hint]) -> Result<()> {
        hints::notify(&self.0, hints).await
    }

    async fn listen(&self) -> Result<Option<Box<dyn HintStream>>> {
        hints::listen(&self.0).await
    }
}

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

async fn depths(shared: &Arc<Shared>) -> Result<Arc<Depths>> {
    if let Some(depths) = shared.depths.recent() {
        return Ok(depths);
    }
    let depths = Arc::new(Depths::new(&rules::rules(shared).await?));
    shared.depths.keep(&depths);
    Ok(depths)
}
