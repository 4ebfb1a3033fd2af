//! Repeating jobs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::client::Params;
use super::columns::Texts;
use super::database::Postgres;
use super::engine_transaction::EngineTransaction;
use super::rows;
use super::shared::Shared;
use super::statements::Statement;
use super::transaction::PgTransaction;
use super::types::JsonParam;
use crate::error::{Error, ErrorKind, Result};
use crate::job::{JobId, JobMessage, Payload, Schedule, ScheduleSpec};
use crate::store::given_ids::without_others;
use crate::store::schedules::{FireOutcome, Firing, ScheduleInfo, ScheduleQuery, log_faults};
use crate::store::{AuditNote, Schedules, UnitOfWork, UnreadableRow};

#[async_trait]
impl Schedules for Postgres {
    async fn next_schedule(&self) -> Result<Option<Duration>> {
        let rows = self.0.engine("look for due schedules", &self.0.sql.schedule_next, &[]).await?;
        let next: Option<i64> = rows::get(rows::single(&rows)?, 0)?;
        Ok(next.map(|us| Duration::from_micros(us.max(0).unsigned_abs())))
    }

    async fn read_schedules(&self, which: ScheduleQuery<'_>) -> Result<(Timestamp, Vec<ScheduleInfo>)> {
        let (shared, sql) = (&self.0, &self.0.sql);
        let what = "read schedules";
        let rows = match which {
            ScheduleQuery::Named(names) => shared.engine(what, &sql.schedule_named, &[&names]).await?,
            ScheduleQuery::Page { after, limit } => {
                shared.engine(what, &sql.schedule_page, &[&after.unwrap_or_default(), &rows::count(limit)]).await?
            }
            ScheduleQuery::Due(limit) => shared.engine(what, &sql.schedule_due, &[&rows::count(limit)]).await?,
        };
        let now = rows::get(rows::single(&rows)?, "now")?;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            // There is no schedule: the row only carries the server's clock.
            let Some(name) = rows::get::<Option<String>>(row, "name")? else { continue };
            match info(row, &name) {
                Ok(info) => found.push(info),
                Err(error) => log_faults(&UnreadableRow { name, why: error.to_string() }, rows::get(row, "version")?),
            }
        }
        Ok((now, found))
    }

    async fn write_schedule(
        &self,
        schedule: &ScheduleInfo,
        seen: Option<i64>,
        note: Option<&AuditNote<'_>>,
    ) -> Result<bool> {
        let ScheduleInfo { spec, anchor, paused, next_at, .. } = schedule;
        let ScheduleSpec { name, schedule, message, misfire, overlap, until, times } = spec;
        let (misfire, overlap) = (misfire.as_str(), overlap.as_str());
        let (text, zone) = (schedule.text(), schedule.zone());
        let times = times.map(|times| i64::try_from(times).unwrap_or(i64::MAX));
        let attempts = i32::try_from(message.max_attempts).unwrap_or(i32::MAX);
        let (payload, body, content_type) = match &message.payload {
            Payload::Json(raw) => (Some(JsonParam(raw.get())), None, None),
            Payload::Bytes { content_type, body } => (None, Some(body), Some(content_type)),
        };
        let texts = Texts::of(message);
        let [headers, options] = texts.each_ref().map(|text| text.as_deref().map(JsonParam));
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![
            name,
            &text,
            &zone,
            &misfire,
            &overlap,
            until,
            &times,
            anchor,
            paused,
            next_at,
            &message.kind,
            &message.queue,
            &message.priority,
            &attempts,
            &payload,
            &body,
            &content_type,
            &headers,
            &options,
        ];
        let (what, statement) = match &seen {
            None => ("put a schedule", &self.0.sql.schedule_insert),
            Some(seen) => {
                params.push(seen);
                ("change a schedule", &self.0.sql.schedule_update)
            }
        };
        let Some(note) = note else { return Ok(!self.0.engine(what, statement, &params).await?.is_empty()) };
        Ok(self.noted(what, statement, &params, note).await? > 0)
    }

    async fn delete_schedules(&self, names: &[String], note: Option<&AuditNote<'_>>) -> Result<u64> {
        let (what, statement) = ("delete schedules", &self.0.sql.schedule_delete);
        match note {
            None => Ok(self.0.engine_once(what, statement, &[&names]).await?.len() as u64),
            Some(note) => self.noted(what, statement, &[&names], note).await,
        }
    }

    async fn send_of_schedule(&self, jobs: &[JobMessage], note: Option<&mut AuditNote<'_>>) -> Result<u64> {
        let Some(note) = note else {
            return match super::insert::insert(&self.0, jobs, None).await {
                Err(error) => match without_others(&error, jobs) {
                    Some((rest, _)) => Ok(super::insert::insert(&self.0, &rest, None).await?.rows),
                    None => Err(error),
                },
                inserted => Ok(inserted?.rows),
            };
        };
        let mut transaction = PgTransaction::begin_engine(&self.0).await?;
        let (rows, _) = insert(&mut transaction, jobs).await?;
        let sent = note.sent + rows;
        let (sql, counts) = (&self.0.sql, AuditNote { sent, ..note.clone() }.counts().to_string());
        let what = note.what.to_string();
        let entry = match note.entry {
            Some(id) => {
                transaction.run("complete the audit", &sql.audit_count, &[&id, &JsonParam(&counts)]).await?;
                id
            }
            None => {
                let params: Params<'_> = &[&note.by, &note.action, &JsonParam(&what), &JsonParam(&counts)];
                let written = transaction.run("write the audit", &sql.audit_write, params).await?;
                rows::get(rows::single(&written)?, 0)?
            }
        };
        transaction.commit().await?;
        // The entry exists only after the commit.
        (note.entry, note.sent) = (Some(entry), sent);
        Ok(rows)
    }

    async fn fire_schedules(&self, firings: &[Firing]) -> Result<Vec<FireOutcome>> {
        match self.fire_together(firings).await {
            Err(error) if error.is_undecided() => {}
            fired => return fired,
        }
        // A job of one of them has a unique key that another transaction holds, or a schedule is locked. The others do not wait for it.
        let mut outcomes = Vec::with_capacity(firings.len());
        for firing in firings {
            outcomes.extend(match self.fire_together(std::slice::from_ref(firing)).await {
                Err(error) if error.is_undecided() => {
                    self.0.tell_held("schedules are not fired", &error.to_string(), 1, &firing.name);
                    vec![FireOutcome::Lost]
                }
                fired => fired?,
            });
        }
        Ok(outcomes)
    }
}

pub(super) async fn schedule_faults(shared: &Arc<Shared>) -> Result<Vec<UnreadableRow>> {
    let rows = shared.engine("read schedules", &shared.sql.schedule_page, &[&"", &i64::MAX]).await?;
    let mut faults = Vec::new();
    for row in &rows {
        let Some(name) = rows::get::<Option<String>>(row, "name")? else { continue };
        faults.extend(info(row, &name).err().map(|error| UnreadableRow { name, why: error.to_string() }));
    }
    Ok(faults)
}

impl Postgres {
    /// Fires schedules in one transaction.
    async fn fire_together(&self, firings: &[Firing]) -> Result<Vec<FireOutcome>> {
        let mut transaction = PgTransaction::begin_briefly(&self.0).await?;
        let outcomes = fire(&self.0, &mut transaction, firings).await?;
        if outcomes.iter().all(|outcome| *outcome == FireOutcome::Lost) {
            transaction.rollback().await?;
        } else {
            transaction.commit().await?;
        }
        Ok(outcomes)
    }

    /// Runs a statement that returns the rows it changed. If there are any, adds an audit entry in the same transaction. Returns their
    /// number.
    async fn noted(
        &self,
        what: &'static str,
        statement: &Statement,
        params: Params<'_>,
        note: &AuditNote<'_>,
    ) -> Result<u64> {
        let batch = EngineTransaction::begin(&self.0, what).await?;
        let changed = batch.query(statement, params).await?.len() as u64;
        if changed == 0 {
            batch.roll_back().await?;
            return Ok(0);
        }
        let (what, counts) = (note.what.to_string(), note.counts().to_string());
        let entry: Params<'_> = &[&note.by, &note.action, &JsonParam(&what), &JsonParam(&counts)];
        batch.query(&self.0.sql.audit_write, entry).await?;
        batch.commit().await?;
        Ok(changed)
    }
}

async fn fire(shared: &Arc<Shared>, transaction: &mut PgTransaction, firings: &[Firing]) -> Result<Vec<FireOutcome>> {
    let names: Vec<&str> = firings.iter().map(|firing| firing.name.as_str()).collect();
    let seen: Vec<i64> = firings.iter().map(|firing| firing.seen).collect();
    let due: Vec<Timestamp> = firings.iter().map(|firing| firing.due).collect();
    let previous: Vec<Option<Uuid>> = firings.iter().map(|firing| firing.unless_alive.map(JobId::into)).collect();
    let locked =
        transaction.run("take due schedules", &shared.sql.schedule_lock, &[&names, &seen, &previous, &due]).await?;
    let mut alive: HashMap<&str, bool> = HashMap::with_capacity(locked.len());
    for row in &locked {
        alive.insert(rows::get(row, "name")?, rows::get(row, "alive")?);
    }
    let outcomes: Vec<FireOutcome> = names
        .iter()
        .map(|name| match alive.get(name) {
            None => FireOutcome::Lost,
            Some(true) => FireOutcome::Skipped,
            Some(false) => FireOutcome::Sent,
        })
        .collect();
    let sent = |outcome: &FireOutcome| *outcome == FireOutcome::Sent;
    let fired = firings.iter().zip(&outcomes).filter(|(_, outcome)| sent(outcome));
    let messages: Vec<JobMessage> = fired.flat_map(|(firing, _)| firing.jobs.iter().cloned()).collect();
    let others = if messages.is_empty() { HashSet::new() } else { insert(transaction, &messages).await?.1 };
    let mut moved = Moved::default();
    for (firing, outcome) in firings.iter().zip(&outcomes).filter(|(_, outcome)| **outcome != FireOutcome::Lost) {
        moved.push(firing, sent(outcome), &others);
    }
    let Moved { names, seen, nexts, lasts, jobs, sent } = &moved;
    let rows = transaction
        .run("move schedules on", &shared.sql.schedule_fired, &[names, seen, nexts, lasts, jobs, sent])
        .await?;
    // The schedules were locked. Any other count would send jobs of schedules that remain due.
    if rows.len() != names.len() {
        return Err(Error::new(
            ErrorKind::Aborted,
            format!(
                "{} of {} due schedules could not be moved on in {}; nothing was sent",
                names.len() - rows.len(),
                names.len(),
                shared.label
            ),
        ));
    }
    Ok(outcomes)
}

/// Inserts the jobs of schedules, without those whose id another job has. Returns how many rows were written, and those ids. A refusal of
/// such ids leaves the transaction as it was.
async fn insert(transaction: &mut PgTransaction, jobs: &[JobMessage]) -> Result<(u64, HashSet<JobId>)> {
    let error = match transaction.insert(jobs, None).await {
        Ok(inserted) => return Ok((inserted.rows, HashSet::new())),
        Err(error) => error,
    };
    let Some((rest, others)) = without_others(&error, jobs) else { return Err(error) };
    Ok((transaction.insert(&rest, None).await?.rows, others))
}

/// The state of schedules after a firing, as one array per column.
#[derive(Default)]
struct Moved<'a> {
    names: Vec<&'a str>,
    seen: Vec<i64>,
    nexts: Vec<Option<Timestamp>>,
    lasts: Vec<Option<Timestamp>>,
    jobs: Vec<Option<Uuid>>,
    sent: Vec<i64>,
}

impl<'a> Moved<'a> {
    /// Jobs in `others` were not sent.
    fn push(&mut self, firing: &'a Firing, sent: bool, others: &HashSet<JobId>) {
        let jobs = || firing.jobs.iter().filter(|job| sent && !others.contains(&job.id));
        self.names.push(&firing.name);
        self.seen.push(firing.seen);
        self.nexts.push(if sent { firing.next_at } else { firing.next_if_left_out });
        self.lasts.push(firing.last_at.filter(|_| jobs().next().is_some()));
        self.jobs.push(jobs().next_back().map(|job| job.id.into()));
        self.sent.push(rows::count(jobs().count()));
    }
}

/// Reads a row, except for the clock in its first column.
fn info(row: &Row, name: &str) -> Result<ScheduleInfo> {
    let anchor = rows::get(row, "anchor_at")?;
    let schedule = Schedule::in_zone(rows::get(row, "schedule")?, rows::get(row, "zone")?)?.counted_from(anchor);
    let message = JobMessage {
        priority: rows::get(row, "priority")?,
        max_attempts: rows::attempts(rows::get(row, "max_attempts")?),
        headers: rows::headers(row, "headers")?,
        options: rows::options(row, "options")?,
        ..JobMessage::new(
            rows::get(row, "kind")?,
            rows::get(row, "queue")?,
            rows::payload(row, ["payload", "body", "content_type"])?,
        )
    };
    Ok(ScheduleInfo {
        spec: ScheduleSpec {
            name: name.to_owned(),
            schedule,
            message,
            misfire: rows::get::<&str>(row, "misfire")?.parse()?,
            overlap: rows::get::<&str>(row, "overlap")?.parse()?,
            until: rows::get(row, "until_at")?,
            times: rows::get::<Option<i64>>(row, "times")?.map(i64::unsigned_abs),
        },
        version: rows::get(row, "version")?,
        anchor,
        paused: rows::get(row, "paused")?,
        next_at: rows::get(row, "next_at")?,
        last_at: rows::get(row, "last_at")?,
        last_job: rows::get::<Option<Uuid>>(row, "last_job")?.map(JobId::from),
        fired: rows::get::<i64>(row, "fired")?.unsigned_abs(),
    })
}
