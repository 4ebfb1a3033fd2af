//! Rules: see `store::rules`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::Row;

use super::client::Params;
use super::engine_transaction::EngineTransaction;
use super::rows;
use super::shared::Shared;
use super::statements::Statement;
use super::types::{JsonParam, JsonText};
use crate::error::{Error, Result};
use crate::store::rules::{edited, log_faults, named};
use crate::store::{Hint, Rate, Rule, RuleEdit, Scope, UnreadableRow};

/// How soon a node with claims in flight is checked again: claims take a few milliseconds.
const UNDER_WAY: Duration = Duration::from_millis(10);
/// How long an admission pass waits for claims under way, to finish the change of a rule that another process left half done.
const FINISHING: Duration = Duration::from_millis(200);

pub(super) async fn change_rule(
    shared: &Arc<Shared>,
    scope: Scope,
    name: &str,
    edit: RuleEdit,
    by: Option<&str>,
) -> Result<Rule> {
    // A concurrent admission pass may have read the old rules and be about to park jobs on a key that this change unblocks, so the two
    // exclude each other. So do two changes of the same rule.
    //
    // The rule is committed before the counts change hands: each running job is counted by the claims (`usage`) or by its permit at every
    // commit, for a moment by both, and never by neither. Claims that begin from now on obey the rule. Those that began before are waited
    // for, and then what they took gets permits as well.
    let batch = EngineTransaction::begin_with(shared, "set a rule", &shared.sql.admit_lock).await?;
    let before = named(read(&batch.query(&shared.sql.rules, &[]).await?)?, scope, name);
    let limits = |rule: &Rule| (rule.running, rule.rate, rule.shares.clone());
    let limited = limits(&before);
    let rule = edited(before, edit)?;
    put(&shared.sql.put_rule, &batch, &rule, by).await?;
    permit_running(shared, &batch, &rule).await?;
    batch.commit().await?;
    shared.depths.forget();
    if (limits(&rule) != limited || rule.running.is_some())
        && !hand_over(shared, Some(&rule), shared.call_timeout).await?
    {
        tracing::warn!(
            %scope,
            name,
            "a transaction that sends jobs is open for longer than database.call_timeout; if it started jobs, they are not \
             counted under the new rule"
        );
    }
    if let Err(error) = super::hints::notify(shared, &[Hint::Any]).await {
        tracing::debug!(%error, "executors were not told of a rule; they will find it when they poll");
    }
    Ok(rule)
}

pub(super) async fn rules(shared: &Arc<Shared>) -> Result<Vec<Rule>> {
    read(&shared.engine("read the rules", &shared.sql.rules, &[]).await?)
}

pub(super) async fn rule_faults(shared: &Arc<Shared>) -> Result<Vec<UnreadableRow>> {
    Ok(read_all(&shared.engine("read the rules", &shared.sql.rules, &[]).await?)?.1)
}

/// Writes a rule, or removes one that sets nothing.
async fn put(statement: &Statement, batch: &EngineTransaction, rule: &Rule, by: Option<&str>) -> Result<()> {
    let scope = rule.scope.as_str();
    let number = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    let period = rule.rate.map(|rate| rows::micros(rate.period));
    let starts = rule.rate.map(|rate| number(rate.starts));
    let depth = rule.depth.map(|depth| i64::try_from(depth).unwrap_or(i64::MAX));
    let shares = rule
        .shares
        .as_ref()
        .map(serde_json::to_string)
        .transpose()
        .map_err(|error| Error::invalid("the shares of a rule can't be written as JSON").with_source(error))?;
    let prefix = rule.scope.prefix();
    let blocked_on = format!("{prefix}{}", rule.name);
    let what = serde_json::json!(rule).to_string();
    let params: Params<'_> = &[
        &scope,
        &rule.name,
        &rule.paused,
        &rule.running.map(number),
        &starts,
        &period,
        &rule.aging.map(rows::micros),
        &depth,
        &shares.as_deref().map(JsonParam),
        &rule.is_empty(),
        &blocked_on,
        &prefix,
        &by,
        &JsonParam(&what),
    ];
    batch.query(statement, params).await.map(drop)
}

/// Finishes the change of a rule whose process died before it had handed the counts over. Until then, claims count nothing more, and what
/// they counted last makes the limit smaller.
pub(super) async fn finish_change(shared: &Arc<Shared>) -> Result<()> {
    hand_over(shared, None, FINISHING).await.map(drop)
}

/// Gives permits to the jobs that run under a rule without being counted otherwise.
async fn permit_running(shared: &Arc<Shared>, batch: &EngineTransaction, rule: &Rule) -> Result<()> {
    if rule.running.is_some() {
        let params: Params<'_> = &[&rule.scope.as_str(), &rule.name, &rule.scope.prefix()];
        batch.query(&shared.sql.permit_running, params).await?;
    }
    Ok(())
}

/// Gives permits to what claims took under the old rules, and drops the counts that claims no longer keep, both in one transaction.
/// Returns whether all claims under way have ended before, within `patience`. If a rule was changed, that is done in any case.
async fn hand_over(shared: &Arc<Shared>, changed: Option<&Rule>, patience: Duration) -> Result<bool> {
    let ended = claims_under_way_ended(shared, patience).await?;
    if !ended && changed.is_none() {
        return Ok(false);
    }
    let batch =
        EngineTransaction::begin_with(shared, "count running jobs under a rule", &shared.sql.admit_lock).await?;
    // What the claims counted under one rule has to be counted under all of them from now on.
    let all = !batch.query(&shared.sql.drop_usage, &[]).await?.is_empty();
    for rule in read(&batch.query(&shared.sql.rules, &[]).await?)? {
        let is_it = changed.is_some_and(|changed| (changed.scope, &changed.name) == (rule.scope, &rule.name));
        if is_it || all {
            permit_running(shared, &batch, &rule).await?;
        }
    }
    batch.commit().await?;
    Ok(ended)
}

/// Waits until all claims that began before this call have ended, at most for `patience`. No claim has to wait: each node's lock is only
/// tried, until the node was found idle once.
async fn claims_under_way_ended(shared: &Arc<Shared>, patience: Duration) -> Result<bool> {
    let deadline = Instant::now() + patience;
    let mut busy = rows::numbers(&shared.engine("list the nodes that claim", &shared.sql.live_nodes, &[]).await?)?;
    while !busy.is_empty() {
        let quiet = shared.engine("wait for claims under way", &shared.sql.idle_of, &[&busy]).await?;
        let quiet = rows::numbers(&quiet)?;
        busy.retain(|node| !quiet.contains(node));
        if busy.is_empty() {
            break;
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        tokio::time::sleep(UNDER_WAY).await;
    }
    Ok(true)
}

/// Reads rules from their rows.
pub(super) fn read(rows: &[Row]) -> Result<Vec<Rule>> {
    let (rules, faults) = read_all(rows)?;
    log_faults(&faults);
    Ok(rules)
}

/// Reads rules, and reports the values that can't be read. Those must not disable the other limits, or let more jobs start than a rule
/// allows.
fn read_all(rows: &[Row]) -> Result<(Vec<Rule>, Vec<UnreadableRow>)> {
    let mut faults = Vec::new();
    let duration = |micros: i64| Duration::from_micros(micros.max(0).unsigned_abs());
    let rules = rows
        .iter()
        .map(|row| {
            let mut rule = Rule::new(rows::get::<&str>(row, "scope")?.parse()?, rows::get::<String>(row, "name")?);
            rule.paused = rows::get(row, "paused")?;
            rule.running = rows::get::<Option<i32>>(row, "running")?.map(i32::unsigned_abs);
            let rate: (Option<i32>, Option<i64>) = (rows::get(row, "rate")?, rows::get(row, "period")?);
            if let (Some(starts), Some(period)) = rate {
                rule.rate = Some(Rate { starts: starts.unsigned_abs(), period: duration(period) });
            }
            rule.aging = rows::get::<Option<i64>>(row, "aging")?.map(duration);
            rule.depth = rows::get::<Option<i64>>(row, "depth")?.map(i64::unsigned_abs);
            rule.shares = rows::get::<Option<JsonText<'_>>>(row, "shares")?.and_then(|JsonText(text)| {
                let read = serde_json::from_str(text).map_err(|error| {
                    let name = format!("{} {}", rule.scope, rule.name);
                    faults.push(UnreadableRow { name, why: format!("its shares: {error}") });
                });
                read.ok()
            });
            Ok(rule)
        })
        .collect::<Result<_>>()?;
    Ok((rules, faults))
}
