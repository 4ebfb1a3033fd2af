//! The columns of a job, stated once: which a message fills, which a job keeps for its whole life, and which a claim reads.
//! Statements name them by the fragments below, so a column that is added to the tables is added here and nowhere else.

use std::fmt::Write as _;

use rusqlite::{Row, Statement, ToSql};
use uuid::Uuid;

use super::rows;
use crate::error::Result;
use crate::job::{Job, JobMessage, RowLocation};

/// The columns that a message fills (`{content}`). None of them ever changes.
pub(super) const CONTENT: [&str; 9] =
    ["id", "kind", "queue", "rank", "max_attempts", "payload", "body", "content_type", "headers"];

/// The values of these columns for one message. Statements name them as the columns (`{content_values}`).
pub(super) struct JobContent<'m> {
    id: &'m [u8; 16],
    rank: i32,
    payload: Option<&'m str>,
    body: Option<&'m [u8]>,
    content_type: Option<&'m str>,
    headers: Option<String>,
    message: &'m JobMessage,
}

impl<'m> JobContent<'m> {
    pub(super) fn new(message: &'m JobMessage) -> Result<Self> {
        let (payload, body, content_type) = rows::content(&message.payload);
        Ok(Self {
            id: message.id.as_uuid().as_bytes(),
            // The negated priority, so that (rank, seq) ascending is the order of claims.
            rank: -i32::from(message.priority),
            payload,
            body,
            content_type,
            headers: rows::header_text(&message.headers)?,
            message,
        })
    }

    /// Returns the values in the order of [`CONTENT`].
    pub(super) fn values(&self) -> [&dyn ToSql; CONTENT.len()] {
        [
            &self.id,
            &self.message.kind,
            &self.message.queue,
            &self.rank,
            &self.message.max_attempts,
            &self.payload,
            &self.body,
            &self.content_type,
            &self.headers,
        ]
    }

    /// Binds the values, and others by their names, and runs the statement.
    pub(super) fn execute(
        &self,
        statement: &mut Statement<'_>,
        others: &[(&str, &dyn ToSql)],
    ) -> rusqlite::Result<usize> {
        let mut name = String::with_capacity(16);
        for (column, value) in CONTENT.into_iter().zip(self.values()) {
            name.clear();
            let _ = write!(name, ":{column}");
            bind(statement, &name, value)?;
        }
        for (name, value) in others {
            bind(statement, name, value)?;
        }
        statement.raw_execute()
    }
}

fn bind(statement: &mut Statement<'_>, name: &str, value: &dyn ToSql) -> rusqlite::Result<()> {
    let index = statement.parameter_index(name)?;
    let index = index.ok_or_else(|| rusqlite::Error::InvalidParameterName(name.to_owned()))?;
    statement.raw_bind_parameter(index, value)
}

/// Names the columns that a claim reads (`{job}`), and finds their positions in an answer. A job has so many columns that looking each up
/// by its name, in every row, would cost more than reading them.
macro_rules! job_columns {
    ($($column:ident),*) => {
        const JOB: &[&str] = &[$(stringify!($column)),*];

        /// Where the columns of a job are in an answer.
        pub(super) struct JobPositions {
            $($column: usize,)*
        }

        impl JobPositions {
            pub(super) fn of(statement: &Statement<'_>) -> rusqlite::Result<Self> {
                Ok(Self { $($column: statement.column_index(stringify!($column))?,)* })
            }
        }
    };
}

job_columns!(
    id,
    seq,
    version,
    kind,
    queue,
    rank,
    attempt,
    max_attempts,
    created_at,
    payload,
    body,
    content_type,
    headers,
    options,
    admitted
);

impl JobPositions {
    /// Reads the job of a row.
    pub(super) fn read(&self, row: &Row<'_>) -> rusqlite::Result<Job> {
        Ok(Job {
            id: Uuid::from_bytes(row.get(self.id)?).into(),
            seq: row.get(self.seq)?,
            version: row.get(self.version)?,
            kind: row.get(self.kind)?,
            queue: row.get(self.queue)?,
            priority: rows::priority(row.get(self.rank)?)?,
            attempt: row.get(self.attempt)?,
            max_attempts: row.get(self.max_attempts)?,
            created_at: rows::timestamp(row.get(self.created_at)?)?,
            payload: rows::payload(row, [self.payload, self.body, self.content_type])?,
            headers: rows::headers(row, self.headers)?,
            options: rows::options(row, self.options)?,
            admitted: row.get(self.admitted)?,
            location: RowLocation::default(),
        })
    }
}

/// Fills in the fragments that name columns of a job.
pub(super) fn render(sql: &str) -> String {
    let content = CONTENT.join(", ");
    sql.replace("{content}", &content)
        .replace("{content_values}", &format!(":{}", CONTENT.join(", :")))
        // What a job keeps for its whole life.
        .replace("{carried}", &format!("seq, created_at, {content}"))
        .replace("{job}", &JOB.join(", "))
}
