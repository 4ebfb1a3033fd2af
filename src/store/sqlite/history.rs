//! The history of ended jobs, and their results.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, ToSql, named_params};
use serde_json::value::RawValue;

use super::rows::{Micros, count, job_id, micros, timestamp};
use super::shared::Shared;
use crate::config::Keep;
use crate::error::Result;
use crate::job::{JobId, NodeId, Payload};
use crate::store::sections::section;
use crate::store::{HistoryEntry, HistoryFilter, HistoryOutcome, JobResult, NewResult};

const SQL: &str = include_str!("history.sql");
const HISTORY: &str = section(SQL, "history");
const REMEMBER: &str = section(SQL, "remember");
const PRUNE_HISTORY: &str = section(SQL, "prune_history");
const PRUNE_AUDIT: &str = section(SQL, "prune_audit");
const PRUNE_DEAD_LETTERS: &str = section(SQL, "prune_dead_letters");
const KEEP_RESULT: &str = section(SQL, "keep_result");
const RESULT: &str = section(SQL, "result");
const PRUNE_RESULTS: &str = section(SQL, "prune_results");

/// Returns the statement that records the jobs which a condition selects.
pub(super) fn remember_where(filter: &str) -> String {
    REMEMBER.replace("{filter}", filter)
}

/// Which outcomes are recorded, and the current time.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    pub(super) keep: Keep,
    pub(super) now: Micros,
}

impl Memory {
    pub(super) fn keeps(self, ending: HistoryOutcome) -> bool {
        match self.keep {
            Keep::Off => false,
            Keep::Failed => ending.is_failure(),
            Keep::All => true,
        }
    }

    /// Records the outcome of one job, if configured. Must run before its row changes or is deleted.
    pub(super) fn remember(
        self,
        connection: &Connection,
        seq: i64,
        ending: HistoryOutcome,
        error: Option<&str>,
    ) -> rusqlite::Result<()> {
        if self.keeps(ending) {
            let params = named_params! { ":seq": seq, ":outcome": ending.as_str(), ":now": self.now, ":why": error };
            connection.prepare_cached(&remember_where("seq = :seq"))?.execute(params)?;
        }
        Ok(())
    }
}

/// Stores a handler's result.
pub(super) fn keep_result(connection: &Connection, result: &NewResult, now: Micros) -> rusqlite::Result<()> {
    connection.prepare_cached(KEEP_RESULT)?.execute(named_params! {
        ":id": result.id.as_uuid().as_bytes(), ":kind": result.kind, ":payload": result.payload.get(), ":now": now,
        ":expires": now.saturating_add(micros(result.retention)),
    })?;
    Ok(())
}

impl Shared {
    /// Removes entries older than `age`.
    async fn prune(&self, what: &'static str, sql: &'static str, age: Duration, limit: usize) -> Result<u64> {
        self.write(what, move |connection, now| {
            let params = named_params! { ":before": now.saturating_sub(micros(age)), ":limit": count(limit) };
            Ok(connection.prepare_cached(sql)?.execute(params)? as u64)
        })
        .await
    }
}

impl Shared {
    pub(super) async fn history(&self, filter: &HistoryFilter, limit: usize) -> Result<Vec<HistoryEntry>> {
        let filter = filter.clone();
        self.query("read the history", move |connection, _| Ok(find(connection, &filter, count(limit))?)).await
    }

    pub(super) async fn prune_history(&self, age: Duration, limit: usize) -> Result<u64> {
        self.prune("prune the history", PRUNE_HISTORY, age, limit).await
    }

    pub(super) async fn prune_audit(&self, age: Duration, limit: usize) -> Result<u64> {
        self.prune("forget the old audit", PRUNE_AUDIT, age, limit).await
    }

    pub(super) async fn prune_dead_letters(&self, age: Duration, limit: usize) -> Result<u64> {
        self.prune("remove old dead letters", PRUNE_DEAD_LETTERS, age, limit).await
    }

    pub(super) async fn result(&self, id: JobId) -> Result<Option<JobResult>> {
        self.check("read the result of a job", move |connection, now| {
            let params = named_params! { ":id": id.as_uuid().as_bytes(), ":now": now };
            let read = |row: &Row<'_>| {
                let text: String = row.get("payload")?;
                Ok(JobResult {
                    id,
                    kind: row.get("kind")?,
                    payload: RawValue::from_string(text.clone()).map_or_else(|_| Payload::text(text), Payload::Json),
                    created_at: timestamp(row.get("created_at")?)?,
                    expires_at: timestamp(row.get("expires_at")?)?,
                })
            };
            Ok(connection.prepare_cached(RESULT)?.query_row(params, read).optional()?)
        })
        .await
    }

    pub(super) async fn prune_results(&self, limit: usize) -> Result<u64> {
        self.write("prune results", move |connection, now| {
            let params = named_params! { ":now": now, ":limit": count(limit) };
            Ok(connection.prepare_cached(PRUNE_RESULTS)?.execute(params)? as u64)
        })
        .await
    }
}

fn find(connection: &Connection, filter: &HistoryFilter, limit: i64) -> rusqlite::Result<Vec<HistoryEntry>> {
    let HistoryFilter { id, queue, kind, outcomes, error, ended, behind } = filter;
    let (behind, seq) = behind.map(|(moment, seq)| (moment.as_microsecond(), seq)).unzip();
    let id = id.map(|id| id.as_uuid().as_bytes().to_vec());
    let words: Option<Vec<&str>> = outcomes.as_ref().map(|all| all.iter().map(|one| one.as_str()).collect());
    let outcomes = words
        .map(|words| format!("[{}]", words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(",")));
    let [since, until] = [ended.since, ended.until].map(|moment| moment.map(jiff::Timestamp::as_microsecond));
    let fragments: [(&str, bool, &dyn ToSql, &str); 9] = [
        (":id", id.is_some(), &id, "job_id = :id"),
        (":queue", queue.is_some(), queue, "queue = :queue"),
        (":kind", kind.is_some(), kind, "kind = :kind"),
        (":outcomes", outcomes.is_some(), &outcomes, "outcome in (select value from json_each(:outcomes))"),
        (":error", error.is_some(), error, "instr(error, :error) > 0"),
        (":since", since.is_some(), &since, "ended_at >= :since"),
        (":until", until.is_some(), &until, "ended_at < :until"),
        (":behind", behind.is_some(), &behind, "(ended_at, seq) < (:behind, :behind_seq)"),
        (":behind_seq", seq.is_some(), &seq, "true"),
    ];
    let given: Vec<_> = fragments.into_iter().filter(|(_, given, ..)| *given).collect();
    let clause: Vec<&str> = std::iter::once("true").chain(given.iter().map(|(.., clause)| *clause)).collect();
    let mut statement = connection.prepare_cached(&HISTORY.replace("{filter}", &clause.join(" and ")))?;
    let limit: (&str, bool, &dyn ToSql, &str) = (":limit", true, &limit, "");
    for (name, _, value, _) in given.iter().chain([&limit]) {
        if let Some(index) = statement.parameter_index(name)? {
            statement.raw_bind_parameter(index, value)?;
        }
    }
    statement.raw_query().mapped(entry).collect()
}

fn entry(row: &Row<'_>) -> rusqlite::Result<HistoryEntry> {
    let outcome: String = row.get("outcome")?;
    Ok(HistoryEntry {
        id: job_id(row, "id")?,
        seq: row.get("seq")?,
        kind: row.get("kind")?,
        queue: row.get("queue")?,
        outcome: outcome.parse().map_err(|_| rusqlite::types::FromSqlError::InvalidType)?,
        attempt: row.get("attempt")?,
        created_at: timestamp(row.get("created_at")?)?,
        started_at: row.get::<_, Option<Micros>>("started_at")?.map(timestamp).transpose()?,
        ended_at: timestamp(row.get("ended_at")?)?,
        node: row.get::<_, Option<i64>>("node")?.map(NodeId),
        tenant: row.get("tenant")?,
        error: row.get("error")?,
    })
}
