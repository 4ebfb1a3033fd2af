//! Admission passes: see `store::admission`.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::client::Params;
use super::engine_transaction::EngineTransaction;
use super::halves::Halves;
use super::shared::Shared;
use super::unreadable::{Found, dead_letter_idle, refusal};
use super::{counting, rows};
use crate::error::Result;
use crate::job::JobId;
use crate::store::Scope;
use crate::store::admission::plan::{Candidate, CandidateState, Plan, RuleBook, Unblock, Unblocked, Usage, plan};
use crate::store::admission::{AdmitRequest, Admitted, LOOK_AHEAD, WorkedQueue};

/// How many blocking keys one admission pass reads.
const MAX_KEYS: i64 = 1000;
/// After how many microseconds jobs are considered again that another transaction had locked.
const HELD_AGAIN: i64 = 1_000_000;

pub(super) async fn admit(shared: &Arc<Shared>, request: &AdmitRequest<'_>) -> Result<Admitted> {
    let check = shared.engine("look for jobs to admit", &shared.sql.admit_check, &[]).await?;
    let row = rows::single(&check)?;
    let (open, limited): (bool, bool) = (rows::get(row, "unblocks")?, rows::get(row, "limited")?);
    let next = rows::get::<Option<i64>>(row, "next_us")?.map(|us| Duration::from_micros(us.max(0).unsigned_abs()));
    let aging = rows::get::<Option<i64>>(row, "aging_us")?.map(|us| Duration::from_micros(us.unsigned_abs()));
    let counted = counted(rows::get(row, "counted")?)?;
    // Without rules only unblocks matter. With rules, jobs that arrived since must be considered too, unless claims count them.
    let others: bool = rows::get(row, "uncounted")?;
    let looks = if request.counting { others } else { limited };
    let unfinished = rows::get(row, "unfinished")?;
    let worked_by_sql: Vec<WorkedQueue> = rows::json(row, "worked_by_sql")?;
    if !open && (!looks || request.queues.is_empty()) {
        return Ok(Admitted { next, limited, counted, worked_by_sql, aging, unfinished, ..Admitted::default() });
    }
    let admitted = run_pass(shared, request, looks).await?;
    Ok(Admitted { next, limited, counted, worked_by_sql, aging, unfinished, ..admitted })
}

/// Parses the rules that claims count themselves: scopes and names.
fn counted(names: Option<Vec<String>>) -> Result<Vec<(Scope, String)>> {
    let split = |name: String| {
        let (scope, name) = name.split_once(':').unwrap_or_default();
        Ok((scope.parse()?, name.to_owned()))
    };
    names.unwrap_or_default().into_iter().map(split).collect()
}

/// Runs one admission pass. `looks` says whether a moment ago there were rules under which newly arrived jobs must be considered. A rule
/// set since then has notified all nodes, so they run another pass.
async fn run_pass(shared: &Arc<Shared>, request: &AdmitRequest<'_>, looks: bool) -> Result<Admitted> {
    match pass_around_locks(shared, request, looks).await {
        Err(error) if refusal(&error).is_some() && clear_candidates(shared, request, looks).await? => {
            pass_around_locks(shared, request, looks).await
        }
        passed => passed,
    }
}

/// Jobs that another transaction has locked are left out, so that the others do not wait for it. They are looked for after a pass has met such a
/// lock, and at the beginning of the next ones for as long as they are locked.
async fn pass_around_locks(shared: &Arc<Shared>, request: &AdmitRequest<'_>, looks: bool) -> Result<Admitted> {
    let mut held: HashSet<JobId> = locked(shared, shared.held_candidates.get()).await?;
    loop {
        let mut decided = Vec::new();
        match pass(shared, request, looks, &held, &mut decided).await {
            Err(error) if error.is_undecided() => {
                let found = locked(shared, decided).await?;
                let before = held.len();
                held.extend(found);
                if held.len() == before {
                    return Err(error);
                }
            }
            admitted => {
                shared.held_candidates.set(held);
                return admitted;
            }
        }
    }
}

/// Returns which of these jobs another transaction has locked.
async fn locked(shared: &Arc<Shared>, ids: Vec<JobId>) -> Result<HashSet<JobId>> {
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
    let ids: Vec<Uuid> = ids.into_iter().map(Uuid::from).collect();
    let held = super::settle::held(shared, None, &ids).await?;
    if let Some(first) = held.first() {
        shared.tell_held("jobs are not admitted", &first.held_by, held.len(), &first.id.to_string());
    }
    Ok(held.into_iter().map(|job| job.id).collect())
}

/// Runs one admission pass without these jobs. `decided` gets the jobs that it decides about.
async fn pass(
    shared: &Arc<Shared>,
    request: &AdmitRequest<'_>,
    looks: bool,
    held: &HashSet<JobId>,
    decided: &mut Vec<JobId>,
) -> Result<Admitted> {
    let mut pass = Pass::begin(shared, request, looks).await?;
    pass.leave_out(held);
    decided.extend(pass.candidates.iter().map(|candidate| candidate.id));
    if pass.candidates.is_empty() && pass.held.is_empty() {
        // No job was blocked on the unblocked keys.
        let Pass { batch, has_removed, more, .. } = pass;
        return if has_removed { batch.commit().await } else { batch.roll_back().await }
            .map(|()| Admitted { more, ..Admitted::default() });
    }
    let admitted = pass.decide(shared, request.limit).await?;
    pass.batch.commit().await?;
    Ok(admitted)
}

/// Finds the candidates that make a pass fail, by passes over parts of them that are rolled back, and makes dead letters of them. Returns
/// whether there were any.
async fn clear_candidates(shared: &Arc<Shared>, request: &AdmitRequest<'_>, looks: bool) -> Result<bool> {
    let whole = Pass::begin(shared, request, looks).await?;
    let mut ids: Vec<JobId> = whole.candidates.iter().map(|candidate| candidate.id).collect();
    whole.batch.roll_back().await?;
    // Whether a locked one would be refused can't be known yet.
    let held = locked(shared, ids.clone()).await?;
    ids.retain(|id| !held.contains(id));
    let (mut halves, mut removed) = (Halves::of(&ids, shared.call_timeout), false);
    while let Some(part) = halves.next() {
        let Err(error) = rehearse(shared, request, looks, part).await else { continue };
        let why = refusal(&error).ok_or(error)?;
        let Some(one) = halves.failed(part) else { continue };
        let named = [*one.as_uuid()];
        let tried = "look at a job that can't be admitted";
        for row in &shared.engine(tried, &shared.sql.unowned, &[&named.as_slice()]).await? {
            removed |= dead_letter_idle(shared, Found::read(row)?, &why).await?;
        }
    }
    Ok(removed)
}

/// Makes a pass over these candidates alone, and rolls it back.
async fn rehearse(shared: &Arc<Shared>, request: &AdmitRequest<'_>, looks: bool, only: &[JobId]) -> Result<()> {
    let mut pass = Pass::begin(shared, request, looks).await?;
    pass.candidates.retain(|candidate| only.contains(&candidate.id));
    pass.decide(shared, request.limit).await?;
    pass.batch.roll_back().await
}

/// An admission pass that has read what it decides about.
struct Pass {
    batch: EngineTransaction,
    rules: RuleBook,
    candidates: Vec<Candidate>,
    /// Candidates about which it does not decide, because another transaction has locked them.
    held: Vec<Candidate>,
    unblocked: Vec<Unblocked>,
    /// Whether any unblock was removed, also of keys that no job is blocked on.
    has_removed: bool,
    /// Whether more keys may be unblocked.
    more: bool,
}

impl Pass {
    /// Waits for its turn, removes unblocks, and reads what they let start.
    async fn begin(shared: &Arc<Shared>, request: &AdmitRequest<'_>, looks: bool) -> Result<Self> {
        let sql = &shared.sql;
        let limit = rows::count(request.limit);
        let batch = EngineTransaction::begin_with(shared, "admit jobs", &sql.admit_lock).await?;
        let (look_ahead, none): (i64, &[String]) = (rows::count(LOOK_AHEAD), &[]);
        let queues = if looks { request.queues } else { none };
        let params: Params<'_> = &[&limit, &queues, &request.kinds, &look_ahead, &MAX_KEYS, &request.counting];
        // Sent together: neither needs the other's answer, and both must come after the lock.
        let (book, found) = tokio::try_join!(batch.query(&sql.rules, &[]), batch.query(&sql.admit_candidates, params))?;
        let rules = RuleBook::new(super::rules::read(&book)?);
        let (candidates, held, unblocked) = (Vec::new(), Vec::new(), Vec::new());
        let mut pass = Self { batch, rules, candidates, held, unblocked, has_removed: false, more: false };
        pass.read(&found)?;
        Ok(pass)
    }

    /// Reads the candidates, the unblocked keys, and a row about all unblocks.
    fn read(&mut self, found: &[Row]) -> Result<()> {
        for row in found {
            let Some(blocked) = rows::get::<Option<bool>>(row, "blocked")? else {
                let n: i64 = rows::get(row, "n")?;
                match rows::get::<Option<String>>(row, "key")? {
                    Some(key) => self.unblocked.push(Unblocked { key, n }),
                    None => (self.has_removed, self.more) = (n > 0, rows::get::<i64>(row, "seq")? > 0),
                }
                continue;
            };
            self.candidates.push(Candidate {
                id: JobId::from(rows::get::<Uuid>(row, "id")?),
                seq: rows::get(row, "seq")?,
                rank: rows::get(row, "rank")?,
                state: if blocked { CandidateState::Blocked } else { CandidateState::Waiting },
                kind: rows::get(row, "kind")?,
                queue: rows::get(row, "queue")?,
                options: rows::blocking_options(row, "options")?,
                holds: rows::get(row, "holds")?,
                blocked_on: rows::get(row, "blocked_on")?,
                share: rows::get(row, "share")?,
            });
        }
        Ok(())
    }

    /// Decides nothing about these jobs.
    fn leave_out(&mut self, held: &HashSet<JobId>) {
        self.held.extend(self.candidates.extract_if(.., |candidate| held.contains(&candidate.id)));
    }

    /// Decides about the candidates, and writes that down.
    async fn decide(&mut self, shared: &Shared, limit: usize) -> Result<Admitted> {
        let candidates = std::mem::take(&mut self.candidates);
        let waiting = candidates.iter().filter(|candidate| candidate.state == CandidateState::Waiting).count();
        let full = self.more || waiting >= limit;
        let usage = usage(&self.batch, shared, &self.rules, &candidates).await?;
        let later = usage.now + HELD_AGAIN;
        let mut plan = plan(candidates, &self.unblocked, &self.rules, usage, rows::count(limit));
        // Their keys were unblocked for them, and nothing else will unblock these again.
        let held = std::mem::take(&mut self.held).into_iter();
        let held = held.filter(|candidate| candidate.state == CandidateState::Blocked);
        plan.unblocks.extend(held.map(|candidate| Unblock { key: candidate.blocked_on, at: Some(later), n: 1 }));
        let again = full || plan.unblocks.iter().any(|unblock| unblock.at.is_none());
        let admitted = apply(&self.batch, shared, &plan).await?;
        Ok(Admitted { more: again, ..admitted })
    }
}

async fn usage(
    batch: &EngineTransaction,
    shared: &Shared,
    rules: &RuleBook,
    candidates: &[Candidate],
) -> Result<Usage> {
    let (keys, periods): (Vec<String>, Vec<i64>) = rules.keys(candidates).into_iter().unzip();
    let ids: Vec<Uuid> =
        candidates.iter().filter(|candidate| candidate.options.ordered).map(|candidate| candidate.id.into()).collect();
    let locks = counting::locks(&shared.config.schema, &keys);
    if !locks.is_empty() {
        batch.query(&shared.sql.lock_limits, &[&locks]).await?;
    }
    let mut usage = Usage::default();
    for row in &batch.query(&shared.sql.admit_usage, &[&keys, &periods, &ids]).await? {
        let count: i64 = rows::get(row, "n")?;
        let key = || rows::get::<String>(row, "key");
        match rows::get::<&str>(row, "what")? {
            "permits" => drop(usage.permits.insert(key()?, count.unsigned_abs())),
            "held" => drop(usage.held.insert((JobId::from(rows::get::<Uuid>(row, "job_id")?), key()?))),
            "rate" => drop(usage.rates.insert(key()?, (count.unsigned_abs(), rows::get(row, "oldest")?))),
            _ => usage.now = count,
        }
    }
    Ok(usage)
}

async fn apply(batch: &EngineTransaction, shared: &Shared, plan: &Plan) -> Result<Admitted> {
    if plan.is_empty() {
        return Ok(Admitted::default());
    }
    let from = |state: CandidateState| -> Vec<Uuid> {
        plan.admit.iter().filter(|admit| admit.state == state).map(|admit| admit.id.into()).collect()
    };
    let (blocked, waiting) = (from(CandidateState::Blocked), from(CandidateState::Waiting));
    let permits = plan.admit.iter().flat_map(|admit| admit.keys.iter().map(|key| (Uuid::from(admit.id), key.as_str())));
    let (permit_ids, permit_keys): (Vec<Uuid>, Vec<&str>) = permits.unzip();
    let (turned, parked): (Vec<_>, Vec<_>) = plan.wait.iter().partition(|wait| wait.state == CandidateState::Blocked);
    let turned_ids: Vec<Uuid> = turned.iter().map(|wait| wait.id.into()).collect();
    let turned_keys: Vec<&str> = turned.iter().map(|wait| wait.blocked_on.as_str()).collect();
    let turned_shares: Vec<&str> = turned.iter().map(|wait| wait.share.as_str()).collect();
    let holds: Vec<Option<&str>> = turned.iter().map(|wait| wait.hold.as_deref()).collect();
    let parked_ids: Vec<Uuid> = parked.iter().map(|wait| wait.id.into()).collect();
    let parked_keys: Vec<&str> = parked.iter().map(|wait| wait.blocked_on.as_str()).collect();
    let parked_shares: Vec<&str> = parked.iter().map(|wait| wait.share.as_str()).collect();
    let rate_keys: Vec<&str> = plan.rates.iter().map(|starts| starts.key.as_str()).collect();
    let starts: Vec<i32> = plan.rates.iter().map(|starts| int(starts.n)).collect();
    let parts: Vec<i64> = plan.rates.iter().map(|starts| starts.part).collect();
    let keys: Vec<&str> = plan.unblocks.iter().map(|unblock| unblock.key.as_str()).collect();
    let at: Vec<Option<Timestamp>> =
        plan.unblocks.iter().map(|unblock| unblock.at.and_then(|at| Timestamp::from_microsecond(at).ok())).collect();
    let n: Vec<i32> = plan.unblocks.iter().map(|unblock| int(unblock.n.unsigned_abs())).collect();
    let rows = batch
        .query(
            &shared.sql.admit_apply,
            &[
                &blocked,
                &waiting,
                &permit_ids,
                &permit_keys,
                &turned_ids,
                &turned_keys,
                &turned_shares,
                &holds,
                &parked_ids,
                &parked_keys,
                &parked_shares,
                &rate_keys,
                &starts,
                &parts,
                &keys,
                &at,
                &n,
            ],
        )
        .await?;
    let row = rows::single(&rows)?;
    let queues: Option<Vec<String>> = rows::get(row, "queues")?;
    Ok(Admitted {
        jobs: rows::get::<i64>(row, "jobs")?.unsigned_abs(),
        queues: queues.unwrap_or_default(),
        ..Admitted::default()
    })
}

fn int(n: u64) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}
