//! Admission passes: see `store::admission`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, named_params};

use super::error::Work;
use super::rows::{Micros, blocking_options, count, job_id, name_list, rank};
use super::rules::TAKE_PERMIT;
use super::shared::Shared;
use super::statements::{Statement, statement};
use crate::error::Result;
use crate::store::Count;
use crate::store::admission::plan::{Candidate, CandidateState, Plan, RuleBook, Starts, Unblocked, Usage, Wait, plan};
use crate::store::admission::{AdmissionLag, AdmitRequest, Admitted, LOOK_AHEAD, UNBLOCKS};
use crate::store::sections::section;

const SQL: &str = include_str!("admission.sql");
const ADMIT_CHECK: &str = section(SQL, "admit_check");
const TAKE_UNBLOCKS: &str = section(SQL, "take_unblocks");
const BLOCKED_SHARES: &str = section(SQL, "blocked_shares");
const BLOCKED_ON_KEY: &str = section(SQL, "blocked_on_key");
const HOLDER_BLOCKED_ON_KEY: &str = section(SQL, "holder_blocked_on_key");
static COVERED_WAITING: Statement = statement!(SQL, "covered_waiting");
const PERMITS_OF_KEY: &str = section(SQL, "permits_of_key");
const PERMITS_OF_JOB: &str = section(SQL, "permits_of_job");
const STARTS_OF_RATE: &str = section(SQL, "starts_of_rate");
const ADMIT: &str = section(SQL, "admit");
const BLOCK: &str = section(SQL, "block");
const ADD_STARTS: &str = section(SQL, "add_starts");
const COUNT_STARTS: &str = section(SQL, "count_starts");
pub(super) const WRITE_UNBLOCK: &str = section(SQL, "write_unblock");
const PRUNE_RATE_LOG: &str = section(SQL, "prune_rate_log");
static PERMIT_FAULTS: Statement = statement!(SQL, "permit_faults");
const IS_SMALL: &str = section(SQL, "is_small");
const OVERDUE_UNBLOCKS: &str = section(SQL, "overdue_unblocks");

/// How many blocking keys one admission pass reads.
const MAX_KEYS: usize = 1000;

impl Shared {
    pub(super) async fn admit(&self, request: &AdmitRequest<'_>) -> Result<Admitted> {
        let tried = "look for jobs to admit";
        let (open, limited, next, aging) = self
            .check(tried, |connection, now| {
                let mut statement = connection.prepare_cached(ADMIT_CHECK)?;
                let row = statement.query_row(named_params! { ":now": now }, |row| {
                    let aging: Option<Micros> = row.get("aging")?;
                    Ok((
                        row.get::<_, bool>("unblocks")?,
                        row.get::<_, bool>("limited")?,
                        row.get::<_, Option<Micros>>("next_at")?,
                        aging,
                    ))
                })?;
                let wait = |at: Micros| Duration::from_micros(at.saturating_sub(now).max(0).unsigned_abs());
                let aging = row.3.map(|aging| Duration::from_micros(aging.unsigned_abs()));
                Ok((row.0, row.1, row.2.map(wait), aging))
            })
            .await?;
        if !open && (!limited || request.queues.is_empty()) {
            return Ok(Admitted { next, limited, aging, ..Admitted::default() });
        }
        let kinds = request.kinds.map(name_list).transpose()?;
        let (limit, queues) = (request.limit, request.queues.to_vec());
        let round = AdmissionPass { limit, queues, kinds };
        let admitted = self.write("admit jobs", move |connection, now| round.run(connection, now)).await?;
        Ok(Admitted { next, limited, aging, ..admitted })
    }

    pub(super) async fn prune_rates(&self, limit: usize) -> Result<u64> {
        self.write("forget old starts", move |connection, now| {
            let params = named_params! { ":now": now, ":limit": count(limit) };
            Ok(connection.prepare_cached(PRUNE_RATE_LOG)?.execute(params)? as u64)
        })
        .await
    }

    /// Looks at so many rows of each sort.
    pub(super) async fn permit_faults(&self, limit: i64) -> Result<Vec<String>> {
        self.query("check the permits", move |connection, _| {
            let mut statement = connection.prepare_cached(&PERMIT_FAULTS)?;
            let faults = statement.query_map(named_params! { ":limit": limit }, |row| row.get(0))?;
            Ok(faults.collect::<rusqlite::Result<_>>()?)
        })
        .await
    }

    /// Returns whether no table that the checks read has more rows than that.
    pub(super) async fn is_small(&self, limit: i64) -> Result<bool> {
        self.query("look how large the tables are", move |connection, _| {
            Ok(connection
                .prepare_cached(IS_SMALL)?
                .query_row(named_params! { ":limit": limit }, |row| row.get("small"))?)
        })
        .await
    }

    pub(super) async fn overdue_unblocks(&self) -> Result<AdmissionLag> {
        self.query("look for unblocked keys", |connection, now| {
            let mut statement = connection.prepare_cached(OVERDUE_UNBLOCKS)?;
            Ok(statement.query_row(named_params! { ":now": now, ":limit": UNBLOCKS as i64 }, |row| {
                let longest: Micros = row.get("longest")?;
                let unblocks = row.get::<_, i64>("unblocks")?.unsigned_abs();
                Ok(AdmissionLag {
                    unblocks: if unblocks < UNBLOCKS { Count::Exact(unblocks) } else { Count::AtLeast(unblocks) },
                    longest: Duration::from_micros(longest.max(0).unsigned_abs()),
                })
            })?)
        })
        .await
    }
}

struct AdmissionPass {
    limit: usize,
    queues: Vec<String>,
    /// As JSON.
    kinds: Option<String>,
}

impl AdmissionPass {
    fn run(&self, connection: &Connection, now: Micros) -> Work<Admitted> {
        let rules = RuleBook::new(super::rules::read(connection)?);
        let (unblocked, more) = self.unblocked(connection, now)?;
        let mut candidates = behind(connection, &unblocked)?;
        if rules.limits() {
            candidates.extend(self.waiting(connection)?);
        }
        let waiting = candidates.iter().filter(|candidate| candidate.state == CandidateState::Waiting).count();
        let full = more || waiting >= self.limit;
        let usage = usage(connection, &rules, &candidates, now)?;
        let plan = plan(candidates, &unblocked, &rules, usage, count(self.limit));
        let more = full || plan.unblocks.iter().any(|unblock| unblock.at.is_none());
        let admitted = apply(connection, &plan, now)?;
        Ok(Admitted { more, ..admitted })
    }

    /// Takes the unblocked keys. The flag says whether more keys may be unblocked.
    fn unblocked(&self, connection: &Connection, now: Micros) -> rusqlite::Result<(Vec<Unblocked>, bool)> {
        let mut statement = connection.prepare_cached(TAKE_UNBLOCKS)?;
        let mut rows = statement.query(named_params! { ":now": now, ":limit": count(MAX_KEYS) })?;
        let (mut keys, mut taken): (BTreeMap<String, i64>, _) = (BTreeMap::new(), 0);
        while let Some(row) = rows.next()? {
            taken += 1;
            *keys.entry(row.get("key")?).or_default() += row.get::<_, i64>("n")?;
        }
        let unblocked = keys.into_iter().map(|(key, n)| Unblocked { key, n: n.min(count(self.limit)) }).collect();
        Ok((unblocked, taken >= MAX_KEYS))
    }

    fn waiting(&self, connection: &Connection) -> rusqlite::Result<Vec<Candidate>> {
        let mut statement = connection.prepare_cached(&COVERED_WAITING)?;
        let mut found = Vec::new();
        for queue in &self.queues {
            let params = named_params! {
                ":queue": queue, ":kinds": self.kinds, ":ahead": count(LOOK_AHEAD), ":limit": count(self.limit),
            };
            for candidate in statement.query_map(params, |row| candidate(row, CandidateState::Waiting))? {
                found.push(candidate?);
            }
        }
        Ok(found)
    }
}

fn behind(connection: &Connection, unblocked: &[Unblocked]) -> rusqlite::Result<Vec<Candidate>> {
    let mut shares = connection.prepare_cached(BLOCKED_SHARES)?;
    let mut behind = connection.prepare_cached(BLOCKED_ON_KEY)?;
    let mut holder = connection.prepare_cached(HOLDER_BLOCKED_ON_KEY)?;
    let mut found = Vec::new();
    for Unblocked { key, n } in unblocked {
        for candidate in
            holder.query_map(named_params! { ":blocked_on": key }, |row| candidate(row, CandidateState::Blocked))?
        {
            found.push(candidate?);
        }
        let names = shares
            .query_map(named_params! { ":blocked_on": key }, |row| row.get(0))?
            .collect::<rusqlite::Result<Vec<String>>>()?;
        for share in names {
            let params = named_params! { ":blocked_on": key, ":share": share, ":limit": n };
            for candidate in behind.query_map(params, |row| candidate(row, CandidateState::Blocked))? {
                found.push(candidate?);
            }
        }
    }
    Ok(found)
}

fn candidate(row: &Row<'_>, state: CandidateState) -> rusqlite::Result<Candidate> {
    Ok(Candidate {
        id: job_id(row, "id")?,
        seq: row.get("seq")?,
        rank: rank(row)?,
        state,
        kind: row.get("kind")?,
        queue: row.get("queue")?,
        options: blocking_options(row, "options")?,
        holds: row.get("admitted")?,
        blocked_on: row.get("blocked_on")?,
        share: row.get("share")?,
    })
}

fn usage(connection: &Connection, rules: &RuleBook, candidates: &[Candidate], now: Micros) -> rusqlite::Result<Usage> {
    let mut usage = Usage { now, ..Usage::default() };
    let mut permits = connection.prepare_cached(PERMITS_OF_KEY)?;
    let mut starts = connection.prepare_cached(STARTS_OF_RATE)?;
    for (key, period) in rules.keys(candidates) {
        let taken: i64 = permits.query_row(named_params! { ":key": key }, |row| row.get(0))?;
        usage.permits.insert(key.clone(), taken.unsigned_abs());
        if period > 0 {
            let params = named_params! { ":key": key, ":now": now, ":after": now.saturating_sub(period) };
            let (n, oldest): (i64, Micros) = starts.query_row(params, |row| Ok((row.get("n")?, row.get("oldest")?)))?;
            usage.rates.insert(key, (n.unsigned_abs(), oldest));
        }
    }
    let mut held = connection.prepare_cached(PERMITS_OF_JOB)?;
    for job in candidates.iter().filter(|candidate| candidate.options.ordered) {
        for key in held.query_map(named_params! { ":id": job.id.as_uuid().as_bytes() }, |row| row.get(0))? {
            usage.held.insert((job.id, key?));
        }
    }
    Ok(usage)
}

fn apply(connection: &Connection, plan: &Plan, now: Micros) -> rusqlite::Result<Admitted> {
    let mut take = connection.prepare_cached(TAKE_PERMIT)?;
    let (mut jobs, mut queues) = (0, BTreeSet::new());
    for admit in &plan.admit {
        let id = named_params! { ":id": admit.id.as_uuid().as_bytes() };
        let queue: Option<String> = connection.prepare_cached(ADMIT)?.query_row(id, |row| row.get(0)).optional()?;
        for key in &admit.keys {
            take.execute(named_params! { ":id": admit.id.as_uuid().as_bytes(), ":key": key })?;
        }
        jobs += u64::from(queue.is_some());
        queues.extend(queue);
    }
    for Wait { id, blocked_on, share, hold, .. } in &plan.wait {
        let id = id.as_uuid().as_bytes();
        let params = named_params! { ":id": id, ":blocked_on": blocked_on, ":share": share, ":hold": hold.is_some() };
        connection.prepare_cached(BLOCK)?.execute(params)?;
        if let Some(key) = hold {
            take.execute(named_params! { ":id": id, ":key": key })?;
        }
    }
    for Starts { key, n, part } in &plan.rates {
        let n = i64::try_from(*n).unwrap_or(i64::MAX);
        let params = named_params! { ":key": key, ":now": now, ":n": n, ":since": now / part * part };
        if connection.prepare_cached(ADD_STARTS)?.execute(params)? == 0 {
            let params = named_params! { ":key": key, ":now": now, ":n": n };
            connection.prepare_cached(COUNT_STARTS)?.execute(params)?;
        }
    }
    for unblock in &plan.unblocks {
        let params = named_params! { ":key": unblock.key, ":at": unblock.at.unwrap_or(0), ":n": unblock.n };
        connection.prepare_cached(WRITE_UNBLOCK)?.execute(params)?;
    }
    Ok(Admitted { jobs, queues: queues.into_iter().collect(), ..Admitted::default() })
}
