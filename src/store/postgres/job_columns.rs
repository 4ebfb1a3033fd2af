//! The columns of a job, stated once: which a message fills, which a job keeps when it moves to another table, and which a claim reads.
//! Statements name them by the fragments below, so a column that is added to the tables is added here and nowhere else.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::rows;
use super::types::JsonParam;
use crate::error::Result;
use crate::job::{Fence, Job, JobId, JobMessage, Payload};

/// The columns that a message fills, and their types. None of them ever changes.
const CONTENT: [(&str, &str); 9] = [
    ("id", "uuid"),
    ("kind", "text"),
    ("queue", "text"),
    ("rank", "int2"),
    ("max_attempts", "int4"),
    ("payload", "jsonb"),
    ("body", "bytea"),
    ("content_type", "text"),
    ("headers", "jsonb"),
];

/// What a dead letter has instead, if the row was one that no statement could carry on. The other columns fit whatever their value.
const REPAIRED: [(&str, &str); 5] = [
    ("created_at", "case when isfinite(created_at) then created_at else clock_timestamp() end"),
    // A character takes at most four bytes.
    ("kind", "case when octet_length(kind) <= 100 then kind else left(kind, 25) end"),
    ("queue", "case when octet_length(queue) <= 100 then queue else left(queue, 25) end"),
    ("rank", "greatest(rank, (-32767)::int2)"),
    ("headers", "case when jsonb_typeof(headers) = 'object' and pg_column_size(headers) <= 524288
                and not jsonb_path_exists(headers, '$.* ? (@.type() != \"string\")') and octet_length(headers::text) <= 524288
          then headers end"),
];

/// The values of these columns for the messages of a flush: one array a column.
#[derive(Default)]
pub(super) struct JobContent<'m> {
    pub(super) ids: Vec<Uuid>,
    kinds: Vec<&'m str>,
    queues: Vec<&'m str>,
    ranks: Vec<i16>,
    max_attempts: Vec<i32>,
    payloads: Vec<Option<JsonParam<'m>>>,
    bodies: Vec<Option<&'m [u8]>>,
    content_types: Vec<Option<&'m str>>,
    headers: Vec<Option<JsonParam<'m>>>,
}

impl<'m> JobContent<'m> {
    pub(super) fn push(&mut self, message: &'m JobMessage, headers: Option<&'m str>) {
        self.ids.push(*message.id.as_uuid());
        self.kinds.push(&message.kind);
        self.queues.push(&message.queue);
        self.ranks.push(-message.priority);
        self.max_attempts.push(i32::try_from(message.max_attempts).unwrap_or(i32::MAX));
        let (payload, body, content_type) = match &message.payload {
            Payload::Json(raw) => (Some(JsonParam(raw.get())), None, None),
            Payload::Bytes { content_type, body } => (None, Some(&**body), Some(&**content_type)),
        };
        self.payloads.push(payload);
        self.bodies.push(body);
        self.content_types.push(content_type);
        self.headers.push(headers.map(JsonParam));
    }

    /// Returns the parameters `{content_arrays}`.
    pub(super) fn arrays(&self) -> Vec<&(dyn ToSql + Sync)> {
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

    /// Returns the parameters `{content_single}`: the values of the first message.
    pub(super) fn first(&self) -> Vec<&(dyn ToSql + Sync)> {
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

    /// Returns whether the messages differ in nothing but their ids and their payloads, which are JSON.
    pub(super) fn are_alike(&self) -> bool {
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

    /// Returns the payloads, and the other columns of the first message, which all share if they are alike.
    pub(super) fn alike(&self) -> (&(dyn ToSql + Sync), [&(dyn ToSql + Sync); 4]) {
        (&self.payloads, [&self.kinds[0], &self.queues[0], &self.ranks[0], &self.max_attempts[0]])
    }
}

/// Names the columns that a claim reads (`{job:row}`), and finds their positions in an answer. A job has so many columns that looking each
/// up by its name, in every row, would cost more than reading them.
macro_rules! job_columns {
    ($($column:ident $(as $ty:literal)?),*) => {
        /// The columns, each with the type that it is read as if that is not its own.
        const JOB: &[(&str, Option<&str>)] = &[$((stringify!($column), job_columns!(@type $($ty)?))),*];

        /// Where the columns of a job are in an answer.
        pub(super) struct JobPositions {
            $($column: usize,)*
            ctid: usize,
        }

        impl JobPositions {
            /// Finds the columns of an answer by one of its rows.
            pub(super) fn of(row: &Row) -> Result<Self> {
                Ok(Self { $($column: rows::position(row, stringify!($column))?,)* ctid: rows::position(row, "ctid")? })
            }
        }
    };
    (@type) => { None };
    (@type $ty:literal) => { Some($ty) };
}

job_columns!(
    id, seq, version as "int8", kind, queue, rank, attempt, max_attempts, created_at, payload, body, content_type, headers, options, admitted
);

impl JobPositions {
    /// Reads the job of a row.
    pub(super) fn read(&self, row: &Row) -> Result<Job> {
        let options = rows::options(row, self.options)?;
        let (admitted, mut location) = (rows::get(row, self.admitted)?, rows::location(row, self.ctid)?);
        // An ordered job may still hold its group after its row is gone.
        location.holds_permits = admitted && !options.ordered;
        location.holds_key = options.unique.is_some();
        Ok(Job {
            id: JobId::from(rows::get::<Uuid>(row, self.id)?),
            seq: rows::get(row, self.seq)?,
            version: rows::get(row, self.version)?,
            kind: rows::get(row, self.kind)?,
            queue: rows::get(row, self.queue)?,
            // The least number has no opposite: such a row was written by hand.
            priority: rows::get::<i16>(row, self.rank)?.saturating_neg(),
            attempt: rows::attempts(rows::get(row, self.attempt)?),
            max_attempts: rows::attempts(rows::get(row, self.max_attempts)?),
            created_at: rows::get(row, self.created_at)?,
            payload: rows::payload(row, [self.payload, self.body, self.content_type])?,
            headers: rows::headers(row, self.headers)?,
            options,
            admitted,
            location,
        })
    }

    /// Reads what names the claim of a row that can't be read.
    pub(super) fn fence(&self, row: &Row) -> Result<Fence> {
        Ok(Fence::new(JobId::from(rows::get::<Uuid>(row, self.id)?), rows::get(row, self.version)?))
    }
}

/// Returns the columns of a job, or the parameters that fill them, by the name of their list.
pub(super) fn filled(name: &str) -> Option<String> {
    Some(match name {
        "content" => content(|column, _| column.to_owned()),
        // What a job keeps for its whole life.
        "carried" => format!("seq, created_at, {}", content(|column, _| column.to_owned())),
        "repaired" => repaired(),
        "content_single" => content(|column, ty| format!(":{column}::{ty}")),
        // An array of documents would be parsed as a whole, and keep the memory for all of them to the end. Texts are parsed row by row.
        "content_arrays" => {
            content(|column, ty| format!(":{column}::{}[]", if column == "payload" { "text" } else { ty }))
        }
        _ => return None,
    })
}

/// Does the same for the columns of a named row.
pub(super) fn of_row(name: &str, row: &str) -> Option<String> {
    match name {
        "content_values" => Some(content(|column, _| {
            if column == "payload" { format!("{row}.{column}::jsonb") } else { format!("{row}.{column}") }
        })),
        "job" => {
            let job = JOB.iter().map(|(column, ty)| match ty {
                Some(ty) => format!("{row}.{column}::{ty} as {column}"),
                None => format!("{row}.{column}"),
            });
            Some(job.collect::<Vec<_>>().join(", "))
        }
        _ => None,
    }
}

fn content(of: impl Fn(&str, &str) -> String) -> String {
    CONTENT.iter().map(|(column, ty)| of(column, ty)).collect::<Vec<_>>().join(", ")
}

/// Returns the values of `{carried}` for a dead letter of a row that no statement could carry on.
fn repaired() -> String {
    let columns = ["seq", "created_at"].into_iter().chain(CONTENT.iter().map(|(column, _)| *column));
    let value = |column| REPAIRED.iter().find(|(repaired, _)| *repaired == column).map_or(column, |(_, value)| *value);
    columns.map(value).collect::<Vec<_>>().join(", ")
}
