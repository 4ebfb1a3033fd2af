//! The messages of a flush as parameters of its statement, and the choice of that statement.

use std::collections::HashSet;

use jiff::Timestamp;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::driver::Columns;
use super::job_columns::JobContent;
use super::rows;
use super::statements::{Statement, Statements};
use super::types::JsonParam;
use crate::error::Result;
use crate::job::{Due, JobId, JobMessage};
use crate::store::given_ids::{Differs, OtherJob, refuse};
use crate::store::statement_size::{ByteBudget, message_size};
use crate::store::{Inserted, OwnedInsert, Preclaim};

/// Messages as one array per column.
#[derive(Default)]
pub(super) struct MessageColumns<'a> {
    content: JobContent<'a>,
    delays: Vec<Option<i64>>,
    ats: Vec<Option<Timestamp>>,
    given: Vec<bool>,
    own: Vec<bool>,
    /// Microseconds.
    hidden_fors: Vec<i64>,
    options: Vec<Option<JsonParam<'a>>>,
    /// Whether some options affect their row: by a key or a time to live.
    telling: bool,
    /// Ids of the messages that ask for a unique key.
    keyed: HashSet<Uuid>,
    node: Option<i64>,
    claim: Option<i32>,
    shape: Shape,
}

/// The kind of statement that a flush needs.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Shape {
    /// One message with a fresh id, due now.
    One,
    /// Like `One`, and the statement returns its transaction id.
    OneNamed,
    /// Like `One`, hidden for its delivery.
    OneHidden,
    /// Fresh ids, all due now, and identical in everything but their JSON payload.
    Alike,
    /// Fresh ids, all due now.
    #[default]
    Ready,
    /// Like `Ready`, and some rows are hidden for their delivery.
    Hidden,
    /// Fresh ids, all due now, with options that do not affect their rows.
    Options,
    /// Like `Options`, and identical in everything but their options and their payload, which is JSON.
    AlikeOptions,
    /// Also delays, given ids, keys or times to live.
    Any,
    /// Some rows are inserted as preclaimed.
    Owned,
}

/// Reads which ids of an answer are those of other jobs.
pub(super) fn other_jobs(rows: &[impl Columns]) -> Result<Vec<OtherJob>> {
    let mut others = Vec::new();
    for row in rows {
        if let Some(differs) = row.column::<Option<&str>>("known")?.and_then(Differs::told) {
            others.push(OtherJob { id: JobId::from(row.column::<Uuid>("id")?), differs });
        }
    }
    Ok(others)
}

/// Ids that senders chose, with what they say about their jobs: the parameters of `known_ids` and `lock_ids`.
#[derive(Default)]
pub(super) struct GivenIds<'a> {
    ids: Vec<Uuid>,
    kinds: Vec<&'a str>,
    queues: Vec<&'a str>,
}

impl<'a> GivenIds<'a> {
    /// Returns those of the messages; `None` if there are none.
    pub(super) fn of(messages: impl IntoIterator<Item = &'a JobMessage>) -> Option<Self> {
        let mut given = Self::default();
        for message in messages.into_iter().filter(|message| message.id_given) {
            given.ids.push(message.id.into());
            given.kinds.push(&message.kind);
            given.queues.push(&message.queue);
        }
        (!given.ids.is_empty()).then_some(given)
    }

    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 3] {
        [&self.ids, &self.kinds, &self.queues]
    }
}

/// Headers and options as JSON, in the order of the messages. They must outlive the columns, which borrow them.
pub(super) struct Texts(Vec<[Option<String>; 2]>);

impl Texts {
    pub(super) fn new(messages: &[JobMessage]) -> Self {
        Self(messages.iter().map(Self::of).collect())
    }

    /// Returns the headers and options of one message.
    pub(super) fn of(message: &JobMessage) -> [Option<String>; 2] {
        // A map of strings always serialises.
        let headers = (!message.headers.is_empty())
            .then(|| serde_json::to_string(&message.headers).unwrap_or_else(|_| "{}".to_owned()));
        [headers, message.options.to_json()]
    }
}

impl<'a> MessageColumns<'a> {
    /// Builds the columns of all messages but the skipped ones. The result has several entries if one statement would be too large.
    pub(super) fn of_each(
        messages: &'a [JobMessage],
        texts: &'a Texts,
        owned: Option<&Preclaim>,
        skip: &HashSet<usize>,
    ) -> Vec<Self> {
        let (node, claim) = owned.map(|owned| (owned.node.0, owned.claim.as_int4())).unzip();
        let begin = || Self { node, claim, ..Self::default() };
        let mut parts = Vec::with_capacity(1);
        let (mut columns, mut budget) = (begin(), ByteBudget::default());
        let mut seen = HashSet::new();
        for (position, message) in messages.iter().enumerate() {
            // If one flush gives the same id twice, the first message counts, also if it is skipped.
            if message.id_given && !seen.insert(message.id) || skip.contains(&position) {
                continue;
            }
            if !budget.takes(message_size(message)) {
                parts.push(std::mem::replace(&mut columns, begin()));
            }
            columns.push(message, &texts.0[position], owned.is_some_and(|owned| owned.ids.contains(&message.id)));
        }
        if !columns.is_empty() {
            parts.push(columns);
        }
        for part in &mut parts {
            // Computed once, since it scans every message.
            part.shape = part.simplest();
        }
        parts
    }

    fn push(&mut self, message: &'a JobMessage, [headers, options]: &'a [Option<String>; 2], own: bool) {
        self.content.push(message, headers.as_deref());
        self.options.push(options.as_deref().map(JsonParam));
        self.telling |= message.options.group.is_some() || message.options.ttl.is_some();
        if message.options.unique.is_some() {
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
        self.hidden_fors.push(rows::micros(message.hidden_for));
    }

    /// Picks the simplest statement that will do.
    fn simplest(&self) -> Shape {
        let hidden = self.hidden_fors.iter().any(|hidden_for| *hidden_for > 0);
        let with_options = self.options.iter().any(Option::is_some);
        if self.node.is_some() {
            Shape::Owned
        } else if self.given.contains(&true)
            || self.telling
            || with_options && hidden
            || self.delays.iter().any(Option::is_some)
            || self.ats.iter().any(Option::is_some)
        {
            Shape::Any
        } else if hidden {
            if self.content.ids.len() == 1 { Shape::OneHidden } else { Shape::Hidden }
        } else if with_options {
            if self.content.are_alike() { Shape::AlikeOptions } else { Shape::Options }
        } else if self.content.ids.len() == 1 {
            Shape::One
        } else if self.content.are_alike() {
            Shape::Alike
        } else {
            Shape::Ready
        }
    }

    fn is_empty(&self) -> bool {
        self.content.ids.is_empty()
    }

    pub(super) fn ids(&self) -> &[Uuid] {
        &self.content.ids
    }

    /// Returns the ids that the senders chose.
    fn given(&self) -> impl Iterator<Item = Uuid> {
        self.content.ids.iter().zip(&self.given).filter(|(_, given)| **given).map(|(id, _)| *id)
    }

    /// Returns when the rows are due, whether their ids were given (and so may exist already), and how long the rows stay hidden.
    fn dues(&self) -> [&(dyn ToSql + Sync); 4] {
        [&self.delays, &self.ats, &self.given, &self.hidden_fors]
    }

    /// Returns the options column.
    pub(super) fn options(&self) -> &(dyn ToSql + Sync) {
        &self.options
    }

    /// Returns the parameters that `receive` shares with the general flush.
    pub(super) fn general(&self) -> Vec<&(dyn ToSql + Sync)> {
        let mut params = self.content.arrays();
        params.extend(self.dues());
        params
    }

    /// Returns the parameters of the chosen statement.
    pub(super) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        match self.shape {
            Shape::One | Shape::OneNamed => return self.content.first(),
            Shape::OneHidden => {
                let mut params = self.content.first();
                params.push(&self.hidden_fors[0]);
                return params;
            }
            _ => {}
        }
        if matches!(self.shape, Shape::Alike | Shape::AlikeOptions) {
            let (payloads, alike) = self.content.alike();
            let mut params: Vec<&(dyn ToSql + Sync)> = vec![&self.content.ids, payloads];
            if self.shape == Shape::AlikeOptions {
                params.push(&self.options);
            }
            params.extend(alike);
            return params;
        }
        let mut params = self.content.arrays();
        match self.shape {
            Shape::One | Shape::OneNamed | Shape::OneHidden | Shape::Alike | Shape::AlikeOptions | Shape::Ready => {}
            Shape::Options => params.push(&self.options),
            Shape::Hidden => params.push(&self.hidden_fors),
            Shape::Any => {
                params.extend(self.dues());
                params.push(&self.options);
            }
            Shape::Owned => {
                let more: [&(dyn ToSql + Sync); 8] = [
                    &self.delays,
                    &self.ats,
                    &self.given,
                    &self.node,
                    &self.own,
                    &self.hidden_fors,
                    &self.options,
                    &self.claim,
                ];
                params.extend(more);
            }
        }
        params
    }

    /// Returns the chosen statement.
    pub(super) fn statement(&self, sql: &'a Statements) -> &'a Statement {
        match self.shape {
            Shape::One => &sql.insert_one,
            Shape::OneNamed => &sql.insert_one_named,
            Shape::OneHidden => &sql.insert_one_hidden,
            Shape::Alike => &sql.insert_alike,
            Shape::Ready => &sql.insert_ready,
            Shape::Hidden => &sql.insert_hidden,
            Shape::Options => &sql.insert_options,
            Shape::AlikeOptions => &sql.insert_alike_options,
            Shape::Any => &sql.insert_any,
            Shape::Owned => &sql.insert_owned,
        }
    }

    /// Switches to a statement that always returns its transaction id.
    pub(super) fn named(mut self) -> Self {
        self.shape = match self.shape {
            Shape::One => Shape::OneNamed,
            Shape::OneHidden => Shape::Hidden,
            shape => shape,
        };
        self
    }

    /// Reads which rows were inserted, and by which transaction if the statement returns its id.
    ///
    /// # Errors
    /// `Conflict` if a given id is that of another job; then no row was inserted.
    pub(super) fn read(&self, rows: &[impl Columns]) -> Result<(Inserted, Option<String>)> {
        let xid = rows.first().map(|row| row.column("xid")).transpose()?;
        if !matches!(self.shape, Shape::Any | Shape::Owned) {
            return Ok((Inserted { rows: self.content.ids.len() as u64, ..Inserted::default() }, xid));
        }
        refuse(&other_jobs(rows)?)?;
        let mut inserted = Inserted { rows: rows.len() as u64, ..Inserted::default() };
        if rows.len() < self.content.ids.len() {
            let written: HashSet<Uuid> = rows.iter().map(|row| row.column("id")).collect::<Result<_>>()?;
            inserted.known = self.given().filter(|id| !written.contains(id)).map(JobId::from).collect();
        }
        for row in rows {
            if row.column("owned")? {
                let (id, mut location) = (row.column::<Uuid>("id")?, rows::known_location(row.column("ctid")?));
                location.holds_key = self.keyed.contains(&id);
                inserted.owned.push(OwnedInsert {
                    id: JobId::from(id),
                    seq: row.column("seq")?,
                    created_at: row.column("created_at")?,
                    location,
                });
            }
        }
        Ok((inserted, xid))
    }
}

/// Returns the given ids if several statements write the messages. These ids must all be locked before the first statement. Returns `None`
/// if no ids were given, or if a single statement handles them all.
pub(super) fn in_parts<'a>(messages: &'a [JobMessage], parts: &[MessageColumns<'_>]) -> Option<GivenIds<'a>> {
    if parts.len() < 2 { None } else { GivenIds::of(messages) }
}
