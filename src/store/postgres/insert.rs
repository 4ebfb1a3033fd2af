//! The flush.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::batch::Batch;
use super::error::{Doing, unanswered};
use super::statements::{Statement, Statements};
use super::types::JsonParam;
use super::unique::{Keys, given};
use super::{Postgres, Shared, rows};
use crate::error::Result;
use crate::job::{Due, JobId, JobMessage, Payload};
use crate::store::unique::Taken;
use crate::store::weight::{Room, weight};
use crate::store::{Inserted, OwnedInsert, Preclaim};

/// What an insert in a transaction of its own is called.
const FLUSH_ALONE: &str = "insert job messages";

/// Messages as one array a column.
#[derive(Default)]
pub(super) struct Columns<'a> {
    ids: Vec<Uuid>,
    kinds: Vec<&'a str>,
    queues: Vec<&'a str>,
    ranks: Vec<i16>,
    max_attempts: Vec<i32>,
    payloads: Vec<Option<JsonParam<'a>>>,
    bodies: Vec<Option<&'a [u8]>>,
    content_types: Vec<Option<&'a str>>,
    headers: Vec<Option<JsonParam<'a>>>,
    delays: Vec<Option<i64>>,
    ats: Vec<Option<Timestamp>>,
    given: Vec<bool>,
    own: Vec<bool>,
    /// Microseconds.
    holds: Vec<i64>,
    terms: Vec<Option<JsonParam<'a>>>,
    node: Option<i64>,
    claim: Option<i32>,
    shape: Shape,
}

/// What a flush needs of its statement.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Shape {
    /// One message: a fresh id, due now.
    One,
    /// The same, and the transaction is to be named.
    OneNamed,
    /// Fresh ids, all due now, and alike in everything but their JSON.
    Alike,
    /// Fresh ids, all due now.
    #[default]
    Ready,
    /// The same, and some are held for their delivery.
    Held,
    /// Delays, given ids or terms too.
    Any,
    /// Some rows are to be born owned.
    Owned,
}

/// Headers and terms as JSON, in the order of the messages; they must outlive the columns, which borrow them.
pub(super) struct Texts(Vec<[Option<String>; 2]>);

impl Texts {
    pub(super) fn new(messages: &[JobMessage]) -> Self {
        Self(messages.iter().map(Self::of).collect())
    }

    /// Those of one message.
    pub(super) fn of(message: &JobMessage) -> [Option<String>; 2] {
        // A map of strings always serialises.
        let headers = (!message.headers.is_empty())
            .then(|| serde_json::to_string(&message.headers).unwrap_or_else(|_| "{}".to_owned()));
        [headers, message.terms.to_json()]
    }
}

impl<'a> Columns<'a> {
    /// Of all messages but those to be skipped: for one statement, or for several if it were too much for one.
    pub(super) fn of_each(
        messages: &'a [JobMessage],
        texts: &'a Texts,
        owned: Option<&Preclaim>,
        skip: &HashSet<usize>,
    ) -> Vec<Self> {
        let (node, claim) = owned.map(|owned| (owned.node.0, owned.claim.as_int4())).unzip();
        let begin = || Self { node, claim, ..Self::default() };
        let mut parts = Vec::with_capacity(1);
        let (mut columns, mut room) = (begin(), Room::default());
        let own: HashSet<usize> = owned.map(|claim| claim.positions.iter().copied().collect()).unwrap_or_default();
        let mut seen = HashSet::new();
        for (position, message) in messages.iter().enumerate() {
            if skip.contains(&position) {
                continue;
            }
            // The same given id twice in one flush: the first one counts.
            if message.id_given && !seen.insert(message.id) {
                continue;
            }
            if !room.takes(weight(message)) {
                parts.push(std::mem::replace(&mut columns, begin()));
            }
            columns.push(message, &texts.0[position], own.contains(&position));
        }
        if !columns.is_empty() {
            parts.push(columns);
        }
        for part in &mut parts {
            // Once: it looks at every message.
            part.shape = part.simplest();
        }
        parts
    }

    fn push(&mut self, message: &'a JobMessage, [headers, terms]: &'a [Option<String>; 2], own: bool) {
        self.ids.push(*message.id.as_uuid());
        self.kinds.push(&message.kind);
        self.queues.push(&message.queue);
        self.ranks.push(-message.priority);
        self.max_attempts.push(i32::try_from(message.max_attempts).unwrap_or(i32::MAX));
        match &message.payload {
            Payload::Json(raw) => {
                self.payloads.push(Some(JsonParam(raw.get())));
                self.bodies.push(None);
                self.content_types.push(None);
            }
            Payload::Bytes { content_type, body } => {
                self.payloads.push(None);
                self.bodies.push(Some(body));
                self.content_types.push(Some(content_type));
            }
        }
        self.headers.push(headers.as_deref().map(JsonParam));
        self.terms.push(terms.as_deref().map(JsonParam));
        let (delay, at) = match message.due {
            Due::Now => (None, None),
            Due::In(delay) => (Some(i64::try_from(delay.as_micros()).unwrap_or(i64::MAX)), None),
            Due::At(at) => (None, Some(at)),
        };
        self.delays.push(delay);
        self.ats.push(at);
        self.given.push(message.id_given);
        self.own.push(own);
        self.holds.push(rows::micros(message.hold));
    }

    /// Which statement will do: the simplest one.
    fn simplest(&self) -> Shape {
        if self.node.is_some() {
            Shape::Owned
        } else if self.given.contains(&true)
            || self.terms.iter().any(Option::is_some)
            || self.delays.iter().any(Option::is_some)
            || self.ats.iter().any(Option::is_some)
        {
            Shape::Any
        } else if self.holds.iter().any(|hold| *hold > 0) {
            Shape::Held
        } else if self.ids.len() == 1 {
            Shape::One
        } else if self.are_alike() {
            Shape::Alike
        } else {
            Shape::Ready
        }
    }

    fn are_alike(&self) -> bool {
        fn same<T: PartialEq>(values: &[T]) -> bool {
            values.split_first().is_none_or(|(first, rest)| rest.iter().all(|value| value == first))
        }
        same(&self.kinds)
            && same(&self.queues)
            && same(&self.ranks)
            && same(&self.max_attempts)
            && self.payloads.iter().all(Option::is_some)
            && self.headers.iter().all(Option::is_none)
    }

    fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(super) fn ids(&self) -> &[Uuid] {
        &self.ids
    }

    /// What every statement takes.
    fn content(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![
            &self.ids,
            &self.kinds,
            &self.queues,
            &self.ranks,
            &self.max_attempts,
            &self.payloads,
            &self.bodies,
            &self.content_types,
            &self.headers,
        ]
    }

    /// The same of one message.
    fn first(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![
            &self.ids[0],
            &self.kinds[0],
            &self.queues[0],
            &self.ranks[0],
            &self.max_attempts[0],
            &self.payloads[0],
            &self.bodies[0],
            &self.content_types[0],
            &self.headers[0],
        ]
    }

    /// When the rows may run, and whether they may be there already.
    fn dues(&self) -> [&(dyn ToSql + Sync); 4] {
        [&self.delays, &self.ats, &self.given, &self.holds]
    }

    /// The terms of each.
    pub(super) fn terms(&self) -> &(dyn ToSql + Sync) {
        &self.terms
    }

    /// The parameters that `receive` shares with the general flush.
    pub(super) fn general(&self) -> Vec<&(dyn ToSql + Sync)> {
        let mut params = self.content();
        params.extend(self.dues());
        params
    }

    /// The parameters of the statement that fits.
    pub(super) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        if matches!(self.shape, Shape::One | Shape::OneNamed) {
            return self.first();
        }
        if self.shape == Shape::Alike
            && let (Some(kind), Some(queue), Some(rank), Some(attempts)) =
                (self.kinds.first(), self.queues.first(), self.ranks.first(), self.max_attempts.first())
        {
            return vec![&self.ids, &self.payloads, kind, queue, rank, attempts];
        }
        let mut params = self.content();
        match self.shape {
            Shape::One | Shape::OneNamed | Shape::Alike | Shape::Ready => {}
            Shape::Held => params.push(&self.holds),
            Shape::Any => {
                params.extend(self.dues());
                params.push(&self.terms);
            }
            Shape::Owned => {
                let more: [&(dyn ToSql + Sync); 8] = [
                    &self.delays,
                    &self.ats,
                    &self.given,
                    &self.node,
                    &self.own,
                    &self.holds,
                    &self.terms,
                    &self.claim,
                ];
                params.extend(more);
            }
        }
        params
    }

    /// The statement that fits, and what its answer means.
    pub(super) fn statement(&self, sql: &'a Statements) -> &'a Statement {
        match self.shape {
            Shape::One => &sql.insert_one,
            Shape::OneNamed => &sql.insert_one_named,
            Shape::Alike => &sql.insert_alike,
            Shape::Ready => &sql.insert_ready,
            Shape::Held => &sql.insert_held,
            Shape::Any => &sql.insert_any,
            Shape::Owned => &sql.insert_owned,
        }
    }

    /// The same, with a statement that always names its transaction.
    pub(super) fn named(mut self) -> Self {
        if self.shape == Shape::One {
            self.shape = Shape::OneNamed;
        }
        self
    }

    /// What was inserted, and by which transaction if the statement names it.
    pub(super) fn read(&self, rows: &[Row]) -> Result<(Inserted, Option<String>)> {
        let xid = |column| rows.first().map(|row| rows::get(row, column)).transpose();
        if !matches!(self.shape, Shape::Any | Shape::Owned) {
            return Ok((Inserted { rows: self.ids.len() as u64, ..Inserted::default() }, xid(0)?));
        }
        let mut inserted = Inserted { rows: rows.len() as u64, ..Inserted::default() };
        for row in rows {
            if rows::get(row, 3)? {
                inserted.owned.push(OwnedInsert {
                    id: JobId::from(rows::get::<Uuid>(row, 0)?),
                    seq: rows::get(row, 1)?,
                    created_at: rows::get(row, 2)?,
                    place: rows::place(row, 5)?,
                });
            }
        }
        Ok((inserted, xid(4)?))
    }
}

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
    let rows = parts.iter().flat_map(|part| part.ids.iter().zip(&part.given));
    let ids: Vec<Uuid> = rows.filter(|(_, given)| **given).map(|(id, _)| *id).collect();
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

impl Postgres {
    /// Inserts through a transaction that the caller owns.
    pub(crate) async fn insert_into(
        &self,
        transaction: &tokio_postgres::Transaction<'_>,
        messages: &[JobMessage],
    ) -> Result<Inserted> {
        if messages.is_empty() {
            return Ok(Inserted::default());
        }
        let texts = Texts::new(messages);
        let mut taken = Taken::default();
        let known = match given(messages) {
            Some(ids) => self.run_in(transaction, &self.0.sql.known_ids, &[&ids]).await?,
            None => Vec::new(),
        };
        if let Some(keys) = Keys::new(messages, &known)? {
            taken = keys.read(&self.run_in(transaction, &self.0.sql.take_unique, &keys.params()).await?)?;
        }
        let mut inserted = Inserted::default();
        let parts = Columns::of_each(messages, &texts, None, &taken.skip);
        if let Some(ids) = in_parts(&parts) {
            self.run_in(transaction, &self.0.sql.decide_ids, &[&ids]).await?;
        }
        for columns in parts {
            let rows = self.run_in(transaction, columns.statement(&self.0.sql), &columns.params()).await?;
            inserted.add(columns.read(&rows)?.0);
        }
        Ok(Inserted { kept: taken.kept, ..inserted })
    }

    async fn run_in(
        &self,
        transaction: &tokio_postgres::Transaction<'_>,
        statement: &Statement,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>> {
        let shared = &self.0;
        let doing = Doing { what: "flush job messages", place: &shared.place };
        let typed: Vec<_> = params.iter().copied().zip(statement.types.iter().cloned()).collect();
        // Unnamed: the caller's connection has no cache of ours, and may go through a pooler.
        tokio::time::timeout(shared.call_timeout, transaction.query_typed(&statement.sql, &typed))
            .await
            .map_err(|_| doing.timeout(shared.call_timeout))?
            .map_err(|e| doing.explain(e))
    }
}
