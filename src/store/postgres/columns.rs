//! The messages of a flush as the parameters of its statement, and which statement that is.

use std::collections::HashSet;

use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::rows;
use super::statements::{Statement, Statements};
use super::types::{JsonParam, keyed};
use crate::error::Result;
use crate::job::{Due, JobId, JobMessage, Payload};
use crate::store::weight::{Room, weight};
use crate::store::{Inserted, OwnedInsert, Preclaim};

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
    /// Terms of which something follows for the row: a gate, or a time to live.
    telling: bool,
    /// Those that ask for a unique key.
    keyed: HashSet<Uuid>,
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
    /// Fresh ids, all due now, with terms of which nothing follows for their rows.
    Terms,
    /// The same, and alike in everything but their payload, which is JSON, and their terms.
    AlikeTerms,
    /// Delays, given ids, gates or times to live too.
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
        self.telling |= message.terms.group.is_some() || message.terms.ttl.is_some();
        if message.terms.unique.is_some() {
            self.keyed.insert(message.id.into());
        }
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
        let held = self.holds.iter().any(|hold| *hold > 0);
        let with_terms = self.terms.iter().any(Option::is_some);
        if self.node.is_some() {
            Shape::Owned
        } else if self.given.contains(&true)
            || self.telling
            || with_terms && held
            || self.delays.iter().any(Option::is_some)
            || self.ats.iter().any(Option::is_some)
        {
            Shape::Any
        } else if held {
            Shape::Held
        } else if with_terms {
            if self.are_alike() { Shape::AlikeTerms } else { Shape::Terms }
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

    /// Those that were chosen by their senders.
    pub(super) fn given(&self) -> impl Iterator<Item = Uuid> {
        self.ids.iter().zip(&self.given).filter(|(_, given)| **given).map(|(id, _)| *id)
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
        if matches!(self.shape, Shape::Alike | Shape::AlikeTerms)
            && let (Some(kind), Some(queue), Some(rank), Some(attempts)) =
                (self.kinds.first(), self.queues.first(), self.ranks.first(), self.max_attempts.first())
        {
            let mut params: Vec<&(dyn ToSql + Sync)> = vec![&self.ids, &self.payloads];
            if self.shape == Shape::AlikeTerms {
                params.push(&self.terms);
            }
            params.extend([kind as &(dyn ToSql + Sync), queue, rank, attempts]);
            return params;
        }
        let mut params = self.content();
        match self.shape {
            Shape::One | Shape::OneNamed | Shape::Alike | Shape::AlikeTerms | Shape::Ready => {}
            Shape::Terms => params.push(&self.terms),
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
            Shape::Terms => &sql.insert_terms,
            Shape::AlikeTerms => &sql.insert_alike_terms,
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
                let (id, place) = (rows::get::<Uuid>(row, 0)?, rows::place(row, 5)?);
                inserted.owned.push(OwnedInsert {
                    id: JobId::from(id),
                    seq: rows::get(row, 1)?,
                    created_at: rows::get(row, 2)?,
                    place: if self.keyed.contains(&id) { keyed(place) } else { place },
                });
            }
        }
        Ok((inserted, xid(4)?))
    }
}
