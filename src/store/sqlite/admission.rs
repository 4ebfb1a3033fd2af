//! Rounds of admission: see `store::admission`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, named_params};

use super::Sqlite;
use super::failure::Work;
use super::parts::{Statement, statement};
use super::rows::{Micros, count, gates, job_id, rank};
use crate::error::{Error, Result};
use crate::store::admission::plan::{Candidate, Opened, Place, Plan, RuleBook, Starts, Usage, Wait, plan};
use crate::store::admission::{Admission, AdmitRequest, Admitted, LOOK_AHEAD, Overdue};

const ADMIT_CHECK: &str = include_str!("sql/admit_check.sql");
const TAKE_OPENINGS: &str = include_str!("sql/take_openings.sql");
const GATE_SHARES: &str = include_str!("sql/gate_shares.sql");
const BEHIND_GATE: &str = include_str!("sql/behind_gate.sql");
const HOLDER_BEHIND_GATE: &str = include_str!("sql/holder_behind_gate.sql");
static COVERED_WAITING: Statement = statement!("sql/covered_waiting.sql");
const SLOTS_OF_KEY: &str = include_str!("sql/slots_of_key.sql");
const SLOTS_OF_JOB: &str = include_str!("sql/slots_of_job.sql");
const STARTS_OF_RATE: &str = include_str!("sql/starts_of_rate.sql");
const BLOCKED_TO_JOB: &str = include_str!("sql/blocked_to_job.sql");
const REMOVE_BLOCKED: &str = include_str!("sql/remove_blocked.sql");
const MARK_ADMITTED: &str = include_str!("sql/mark_admitted.sql");
const TAKE_SLOT: &str = include_str!("sql/take_slot.sql");
const TURN_BLOCKED: &str = include_str!("sql/turn_blocked.sql");
const JOB_TO_BLOCKED: &str = include_str!("sql/job_to_blocked.sql");
const REMOVE_WAITING: &str = include_str!("sql/remove_waiting.sql");
const ADD_STARTS: &str = include_str!("sql/add_starts.sql");
const COUNT_STARTS: &str = include_str!("sql/count_starts.sql");
const WRITE_OPENING: &str = include_str!("sql/write_opening.sql");
const PRUNE_RATE_LOG: &str = include_str!("sql/prune_rate_log.sql");
const SLOT_FAULTS: &str = include_str!("sql/slot_faults.sql");
const OVERDUE_OPENINGS: &str = include_str!("sql/overdue_openings.sql");

/// Gates that one round looks at.
const GATES: usize = 1000;

#[async_trait]
impl Admission for Sqlite {
    async fn admit(&self, request: &AdmitRequest<'_>) -> Result<Admitted> {
        let tried = "look for jobs to admit";
        let (open, limited, next, aging) = self
            .inner
            .check(tried, |connection, now| {
                let mut statement = connection.prepare_cached(ADMIT_CHECK)?;
                let row = statement.query_row(named_params! { ":now": now }, |row| {
                    let aging: Option<Micros> = row.get(3)?;
                    Ok((row.get::<_, bool>(0)?, row.get::<_, bool>(1)?, row.get::<_, Option<Micros>>(2)?, aging))
                })?;
                let wait = |at: Micros| Duration::from_micros(at.saturating_sub(now).max(0).unsigned_abs());
                let aging = row.3.map(|aging| Duration::from_micros(aging.unsigned_abs()));
                Ok((row.0, row.1, row.2.map(wait), aging))
            })
            .await?;
        if !open && (!limited || request.queues.is_empty()) {
            return Ok(Admitted { next, limited, aging, ..Admitted::default() });
        }
        let kinds = request
            .kinds
            .map(serde_json::to_string)
            .transpose()
            .map_err(|error| Error::invalid("the kinds can't be written as JSON").with_source(error))?;
        let (limit, queues) = (request.limit, request.queues.to_vec());
        let round = Round { limit, queues, kinds };
        let admitted = self.inner.write("admit jobs", move |connection, now| round.run(connection, now)).await?;
        Ok(Admitted { next, limited, aging, ..admitted })
    }

    async fn age_jobs(&self, limit: usize) -> Result<u64> {
        self.inner.age_jobs(limit).await
    }

    async fn prune_rates(&self, limit: usize) -> Result<u64> {
        self.inner
            .write("forget old starts", move |connection, now| {
                let params = named_params! { ":now": now, ":limit": count(limit) };
                Ok(connection.prepare_cached(PRUNE_RATE_LOG)?.execute(params)? as u64)
            })
            .await
    }

    async fn slot_faults(&self) -> Result<Vec<String>> {
        self.inner
            .query("check the slots", |connection, _| {
                let mut statement = connection.prepare_cached(SLOT_FAULTS)?;
                Ok(statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }

    async fn overdue_openings(&self) -> Result<Overdue> {
        self.inner
            .query("look for open gates", |connection, now| {
                let mut statement = connection.prepare_cached(OVERDUE_OPENINGS)?;
                Ok(statement.query_row(named_params! { ":now": now }, |row| {
                    let longest: Micros = row.get(1)?;
                    Ok(Overdue {
                        openings: row.get::<_, i64>(0)?.unsigned_abs(),
                        longest: Duration::from_micros(longest.max(0).unsigned_abs()),
                    })
                })?)
            })
            .await
    }
}

struct Round {
    limit: usize,
    queues: Vec<String>,
    /// As JSON.
    kinds: Option<String>,
}

impl Round {
    fn run(&self, connection: &Connection, now: Micros) -> Work<Admitted> {
        let rules = RuleBook::new(super::rules::read(connection)?);
        let (opened, more) = self.opened(connection, now)?;
        let mut candidates = behind(connection, &opened)?;
        if rules.limits() {
            candidates.extend(self.waiting(connection)?);
        }
        let waiting = candidates.iter().filter(|candidate| candidate.place == Place::Waiting).count();
        let full = more || waiting >= self.limit;
        let usage = usage(connection, &rules, &candidates, now)?;
        let plan = plan(candidates, &opened, &rules, usage, count(self.limit));
        let more = full || plan.openings.iter().any(|opening| opening.at.is_none());
        let admitted = apply(connection, &plan, now)?;
        Ok(Admitted { more, ..admitted })
    }

    /// Also says whether more gates may have opened.
    fn opened(&self, connection: &Connection, now: Micros) -> rusqlite::Result<(Vec<Opened>, bool)> {
        let mut statement = connection.prepare_cached(TAKE_OPENINGS)?;
        let mut rows = statement.query(named_params! { ":now": now, ":limit": count(GATES) })?;
        let (mut gates, mut taken): (BTreeMap<String, i64>, _) = (BTreeMap::new(), 0);
        while let Some(row) = rows.next()? {
            taken += 1;
            *gates.entry(row.get(0)?).or_default() += row.get::<_, i64>(1)?;
        }
        let opened = gates.into_iter().map(|(key, n)| Opened { key, n: n.min(count(self.limit)) }).collect();
        Ok((opened, taken >= GATES))
    }

    fn waiting(&self, connection: &Connection) -> rusqlite::Result<Vec<Candidate>> {
        let mut statement = connection.prepare_cached(&COVERED_WAITING)?;
        let mut found = Vec::new();
        for queue in &self.queues {
            let params = named_params! {
                ":queue": queue, ":kinds": self.kinds, ":ahead": count(LOOK_AHEAD), ":limit": count(self.limit),
            };
            for candidate in statement.query_map(params, |row| candidate(row, Place::Waiting))? {
                found.push(candidate?);
            }
        }
        Ok(found)
    }
}

fn behind(connection: &Connection, opened: &[Opened]) -> rusqlite::Result<Vec<Candidate>> {
    let mut shares = connection.prepare_cached(GATE_SHARES)?;
    let mut behind = connection.prepare_cached(BEHIND_GATE)?;
    let mut holder = connection.prepare_cached(HOLDER_BEHIND_GATE)?;
    let mut found = Vec::new();
    for Opened { key, n } in opened {
        for candidate in holder.query_map(named_params! { ":gate": key }, |row| candidate(row, Place::Blocked))? {
            found.push(candidate?);
        }
        let names = shares
            .query_map(named_params! { ":gate": key }, |row| row.get(0))?
            .collect::<rusqlite::Result<Vec<String>>>()?;
        for share in names {
            let params = named_params! { ":gate": key, ":share": share, ":limit": n };
            for candidate in behind.query_map(params, |row| candidate(row, Place::Blocked))? {
                found.push(candidate?);
            }
        }
    }
    Ok(found)
}

fn candidate(row: &Row<'_>, place: Place) -> rusqlite::Result<Candidate> {
    Ok(Candidate {
        id: job_id(row, "id")?,
        seq: row.get("seq")?,
        rank: rank(row)?,
        place,
        kind: row.get("kind")?,
        queue: row.get("queue")?,
        terms: gates(row, "terms")?,
        holds: row.get("admitted")?,
        gate: row.get("gate")?,
        share: row.get("share")?,
    })
}

fn usage(connection: &Connection, rules: &RuleBook, candidates: &[Candidate], now: Micros) -> rusqlite::Result<Usage> {
    let mut usage = Usage { now, ..Usage::default() };
    let mut slots = connection.prepare_cached(SLOTS_OF_KEY)?;
    let mut starts = connection.prepare_cached(STARTS_OF_RATE)?;
    for (key, period) in rules.keys(candidates) {
        let taken: i64 = slots.query_row(named_params! { ":key": key }, |row| row.get(0))?;
        usage.slots.insert(key.clone(), taken.unsigned_abs());
        if period > 0 {
            let params = named_params! { ":key": key, ":now": now, ":after": now.saturating_sub(period) };
            let (n, oldest): (i64, Micros) = starts.query_row(params, |row| Ok((row.get(0)?, row.get(1)?)))?;
            usage.rates.insert(key, (n.unsigned_abs(), oldest));
        }
    }
    let mut held = connection.prepare_cached(SLOTS_OF_JOB)?;
    for job in candidates.iter().filter(|candidate| candidate.terms.ordered) {
        for key in held.query_map(named_params! { ":id": job.id.as_uuid().as_bytes() }, |row| row.get(0))? {
            usage.held.insert((job.id, key?));
        }
    }
    Ok(usage)
}

fn apply(connection: &Connection, plan: &Plan, now: Micros) -> rusqlite::Result<Admitted> {
    let mut take = connection.prepare_cached(TAKE_SLOT)?;
    let (mut jobs, mut queues) = (0, BTreeSet::new());
    for admit in &plan.admit {
        let id = named_params! { ":id": admit.id.as_uuid().as_bytes() };
        let start = if admit.place == Place::Blocked { BLOCKED_TO_JOB } else { MARK_ADMITTED };
        let queue: Option<String> = connection.prepare_cached(start)?.query_row(id, |row| row.get(0)).optional()?;
        // Before the old row goes: then it is seen that the job was only moved on.
        for key in &admit.keys {
            take.execute(named_params! { ":id": admit.id.as_uuid().as_bytes(), ":key": key })?;
        }
        if admit.place == Place::Blocked {
            connection.prepare_cached(REMOVE_BLOCKED)?.execute(id)?;
        }
        jobs += u64::from(queue.is_some());
        queues.extend(queue);
    }
    for wait in &plan.wait {
        turn(connection, wait)?;
    }
    for Starts { key, n, part } in &plan.rates {
        let n = i64::try_from(*n).unwrap_or(i64::MAX);
        let params = named_params! { ":key": key, ":now": now, ":n": n, ":since": now / part * part };
        if connection.prepare_cached(ADD_STARTS)?.execute(params)? == 0 {
            let params = named_params! { ":key": key, ":now": now, ":n": n };
            connection.prepare_cached(COUNT_STARTS)?.execute(params)?;
        }
    }
    for opening in &plan.openings {
        let params = named_params! { ":key": opening.key, ":at": opening.at.unwrap_or(0), ":n": opening.n };
        connection.prepare_cached(WRITE_OPENING)?.execute(params)?;
    }
    Ok(Admitted { jobs, queues: queues.into_iter().collect(), ..Admitted::default() })
}

fn turn(connection: &Connection, wait: &Wait) -> rusqlite::Result<()> {
    let Wait { id, place, gate, share, hold } = wait;
    let id = id.as_uuid().as_bytes();
    match place {
        Place::Blocked => {
            let params = named_params! { ":id": id, ":gate": gate, ":share": share, ":hold": hold.is_some() };
            connection.prepare_cached(TURN_BLOCKED)?.execute(params)?;
            if let Some(key) = hold {
                connection.prepare_cached(TAKE_SLOT)?.execute(named_params! { ":id": id, ":key": key })?;
            }
        }
        Place::Waiting => {
            let params = named_params! { ":id": id, ":gate": gate, ":share": share };
            connection.prepare_cached(JOB_TO_BLOCKED)?.execute(params)?;
            connection.prepare_cached(REMOVE_WAITING)?.execute(named_params! { ":id": id })?;
        }
    }
    Ok(())
}
