//! Repeating jobs.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use rusqlite::{Connection, Row, ToSql, named_params};

use super::audit::Noted;
use super::database::Sqlite;
use super::error::{Failure, Work};
use super::insert::insert;
use super::rows::{self, Micros, count, optional_timestamp, timestamp};
use super::shared::Shared;
use crate::error::Result;
use crate::job::{JobId, JobMessage, Schedule, ScheduleSpec};
use crate::store::given_ids::without_others;
use crate::store::schedules::{FireOutcome, Firing, ScheduleInfo, ScheduleQuery, log_faults};
use crate::store::sections::section;
use crate::store::{AuditNote, Schedules, UnreadableRow};

const SQL: &str = include_str!("schedules.sql");
const NEXT: &str = section(SQL, "next");
const NAMED: &str = section(SQL, "named");
const PAGE: &str = section(SQL, "page");
const DUE: &str = section(SQL, "due");
const INSERT: &str = section(SQL, "insert");
const UPDATE: &str = section(SQL, "update");
const DELETE: &str = section(SQL, "delete");
const VERSION: &str = section(SQL, "version");
const ALIVE: &str = section(SQL, "alive");
const FIRED: &str = section(SQL, "fired");

#[async_trait]
impl Schedules for Sqlite {
    async fn next_schedule(&self) -> Result<Option<Duration>> {
        self.0
            .check("look for due schedules", |connection, now| {
                let next: Option<Micros> = connection.prepare_cached(NEXT)?.query_row([], |row| row.get(0))?;
                Ok(next.map(|next| Duration::from_micros(next.saturating_sub(now).max(0).unsigned_abs())))
            })
            .await
    }

    async fn read_schedules(&self, which: ScheduleQuery<'_>) -> Result<(Timestamp, Vec<ScheduleInfo>)> {
        let tried = "read schedules";
        match which {
            ScheduleQuery::Named(names) => {
                let names = serde_json::Value::from(names.to_vec()).to_string();
                self.0
                    .query(tried, move |connection, now| {
                        read(connection, NAMED, now, named_params! { ":names": names })
                    })
                    .await
            }
            ScheduleQuery::Page { after, limit } => {
                let after = after.unwrap_or_default().to_owned();
                let work = move |connection: &Connection, now| {
                    read(connection, PAGE, now, named_params! { ":after": after, ":limit": count(limit) })
                };
                self.0.query(tried, work).await
            }
            ScheduleQuery::Due(limit) => {
                let work = move |connection: &Connection, now| {
                    read(connection, DUE, now, named_params! { ":now": now, ":limit": count(limit) })
                };
                self.0.check(tried, work).await
            }
        }
    }

    async fn write_schedule(
        &self,
        schedule: &ScheduleInfo,
        seen: Option<i64>,
        note: Option<&AuditNote<'_>>,
    ) -> Result<bool> {
        let (schedule, note) = (schedule.clone(), note.map(Noted::from));
        self.0
            .write("change a schedule", move |connection, now| {
                let written = write(connection, &schedule, seen, now)?;
                if written && let Some(note) = note {
                    note.write(connection, 0, now)?;
                }
                Ok(written)
            })
            .await
    }

    async fn delete_schedules(&self, names: &[String], note: Option<&AuditNote<'_>>) -> Result<u64> {
        let (names, note) = (names.to_vec(), note.map(Noted::from));
        self.0
            .write("delete schedules", move |connection, now| {
                let mut statement = connection.prepare_cached(DELETE)?;
                let mut deleted = 0;
                for name in &names {
                    deleted += statement.execute(named_params! { ":name": name })? as u64;
                }
                if deleted > 0
                    && let Some(note) = note
                {
                    note.write(connection, 0, now)?;
                }
                Ok(deleted)
            })
            .await
    }

    async fn send_of_schedule(&self, jobs: &[JobMessage], note: Option<&mut AuditNote<'_>>) -> Result<u64> {
        let Some(note) = note else {
            let jobs = jobs.to_vec();
            let send = move |connection: &Connection, now| Ok(insert_mine(connection, &jobs, now)?.0);
            return self.0.write("send jobs of a schedule", send).await;
        };
        let (jobs, noted) = (jobs.to_vec(), Noted::from(&*note));
        let (rows, entry) = self
            .0
            .write("send jobs of a schedule", move |connection, now| {
                let (rows, _) = insert_mine(connection, &jobs, now)?;
                Ok((rows, noted.write(connection, rows, now)?))
            })
            .await?;
        // The entry exists only after the commit.
        (note.entry, note.sent) = (Some(entry), note.sent + rows);
        Ok(rows)
    }

    async fn fire_schedules(&self, firings: &[Firing]) -> Result<Vec<FireOutcome>> {
        let firings = firings.to_vec();
        self.0
            .write("fire schedules", move |connection, now| {
                firings.iter().map(|firing| fire(connection, firing, now)).collect()
            })
            .await
    }
}

impl Shared {
    pub(super) async fn schedule_faults(&self) -> Result<Vec<UnreadableRow>> {
        self.query("read schedules", |connection, _| {
            let mut faults = Vec::new();
            let params = named_params! { ":after": "", ":limit": i64::MAX };
            read_each(connection, PAGE, params, |fault, _| faults.push(fault))?;
            Ok(faults)
        })
        .await
    }
}

/// Fires one schedule. The transaction has the write lock, so nothing changes between the check and the update.
fn fire(connection: &Connection, firing: &Firing, now: Micros) -> Work<FireOutcome> {
    let unchanged: bool = connection.prepare_cached(VERSION)?.query_row(
        named_params! { ":name": firing.name, ":seen": firing.seen, ":due": firing.due.as_microsecond() },
        |row| row.get(0),
    )?;
    if !unchanged {
        return Ok(FireOutcome::Lost);
    }
    let alive = match firing.unless_alive {
        Some(id) => connection
            .prepare_cached(ALIVE)?
            .query_row(named_params! { ":id": id.as_uuid().as_bytes() }, |row| row.get(0))?,
        None => false,
    };
    let others =
        if alive || firing.jobs.is_empty() { HashSet::new() } else { insert_mine(connection, &firing.jobs, now)?.1 };
    let sent = || firing.jobs.iter().filter(|job| !alive && !others.contains(&job.id));
    let next_at = if alive { firing.next_if_left_out } else { firing.next_at };
    connection.prepare_cached(FIRED)?.execute(named_params! {
        ":name": firing.name,
        ":seen": firing.seen,
        ":next_at": next_at.map(Timestamp::as_microsecond),
        ":last_at": firing.last_at.filter(|_| sent().next().is_some()).map(Timestamp::as_microsecond),
        ":last_job": sent().next_back().map(|job| *job.id.as_uuid().as_bytes()),
        ":sent": count(sent().count()),
    })?;
    Ok(if alive { FireOutcome::Skipped } else { FireOutcome::Sent })
}

/// Inserts the jobs of a schedule, without those whose id another job has. Returns how many rows were written, and those ids.
fn insert_mine(connection: &Connection, jobs: &[JobMessage], now: Micros) -> Work<(u64, HashSet<JobId>)> {
    match insert(connection, jobs, None, now) {
        Ok(inserted) => Ok((inserted.rows, HashSet::new())),
        Err(Failure::Ours(error)) => {
            let Some((rest, others)) = without_others(&error, jobs) else { return Err(error.into()) };
            let rows = if rest.is_empty() { 0 } else { insert(connection, &rest, None, now)?.rows };
            Ok((rows, others))
        }
        Err(error) => Err(error),
    }
}

fn write(connection: &Connection, schedule: &ScheduleInfo, seen: Option<i64>, now: Micros) -> Work<bool> {
    let ScheduleInfo { spec, anchor, paused, next_at, .. } = schedule;
    let message = &spec.message;
    let (payload, body, content_type) = rows::content(&message.payload);
    let (headers, options) = (rows::header_text(&message.headers)?, message.options.to_json());
    let (text, zone) = (spec.schedule.text(), spec.schedule.zone());
    let (misfire, overlap) = (spec.misfire.as_str(), spec.overlap.as_str());
    let times = spec.times.map(|times| i64::try_from(times).unwrap_or(i64::MAX));
    let [anchor, until, next_at] = [Some(*anchor), spec.until, *next_at].map(|at| at.map(Timestamp::as_microsecond));
    let mut params: Vec<(&str, &dyn ToSql)> = vec![
        (":name", &spec.name),
        (":schedule", &text),
        (":zone", &zone),
        (":misfire", &misfire),
        (":overlap", &overlap),
        (":until_at", &until),
        (":times", &times),
        (":anchor_at", &anchor),
        (":paused", paused),
        (":next_at", &next_at),
        (":kind", &message.kind),
        (":queue", &message.queue),
        (":priority", &message.priority),
        (":max_attempts", &message.max_attempts),
        (":payload", &payload),
        (":body", &body),
        (":content_type", &content_type),
        (":headers", &headers),
        (":options", &options),
    ];
    let sql = match &seen {
        None => {
            params.push((":now", &now));
            INSERT
        }
        Some(seen) => {
            params.push((":seen", seen));
            UPDATE
        }
    };
    Ok(connection.prepare_cached(sql)?.execute(&params[..])? == 1)
}

fn read(
    connection: &Connection,
    sql: &str,
    now: Micros,
    params: &[(&str, &dyn ToSql)],
) -> Work<(Timestamp, Vec<ScheduleInfo>)> {
    let found = read_each(connection, sql, params, |fault, version| log_faults(&fault, version))?;
    Ok((timestamp(now)?, found))
}

/// Reads the schedules. For each unreadable one, reports its name, its version and the reason.
fn read_each(
    connection: &Connection,
    sql: &str,
    params: &[(&str, &dyn ToSql)],
    mut other: impl FnMut(UnreadableRow, i64),
) -> Work<Vec<ScheduleInfo>> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        match info(row) {
            Ok(info) => found.push(info),
            Err(failure) => {
                let name = String::from_utf8_lossy(row.get_ref("name")?.as_bytes().map_err(rusqlite::Error::from)?)
                    .into_owned();
                let why = failure.explain("read a schedule", &name).to_string();
                other(UnreadableRow { name, why }, row.get("version")?);
            }
        }
    }
    Ok(found)
}

fn info(row: &Row<'_>) -> Work<ScheduleInfo> {
    let moment = |column: &str| optional_timestamp(row.get(column)?);
    let anchor = timestamp(row.get("anchor_at")?)?;
    let text = |column: &str| row.get::<_, String>(column);
    let schedule = Schedule::in_zone(&text("schedule")?, &text("zone")?)?.counted_from(anchor);
    let message = JobMessage {
        priority: row.get("priority")?,
        max_attempts: row.get("max_attempts")?,
        headers: rows::headers(row, "headers")?,
        options: rows::options(row, "options")?,
        ..JobMessage::new(row.get("kind")?, row.get("queue")?, rows::payload(row, ["payload", "body", "content_type"])?)
    };
    let spec = ScheduleSpec {
        name: row.get("name")?,
        schedule,
        message,
        misfire: text("misfire")?.parse()?,
        overlap: text("overlap")?.parse()?,
        until: moment("until_at")?,
        times: row.get::<_, Option<i64>>("times")?.map(i64::unsigned_abs),
    };
    Ok(ScheduleInfo {
        spec,
        version: row.get("version")?,
        anchor,
        paused: row.get("paused")?,
        next_at: moment("next_at")?,
        last_at: moment("last_at")?,
        last_job: row.get::<_, Option<[u8; 16]>>("last_job")?.map(|bytes| uuid::Uuid::from_bytes(bytes).into()),
        fired: row.get::<_, i64>("fired")?.unsigned_abs(),
    })
}
