//! Rules: see `store::rules`.

use std::time::Duration;

use rusqlite::types::Type;
use rusqlite::{Connection, Row, named_params};

use super::audit;
use super::error::Work;
use super::rows::{Micros, broken, count, micros, options};
use super::shared::Shared;
use super::statements::{Statement, statement};
use crate::error::{Error, Result};
use crate::job::JobOptions;
use crate::store::rules::{edited, log_faults, named};
use crate::store::sections::section;
use crate::store::{Rate, Rule, RuleEdit, Scope, UnreadableRow};

const SQL: &str = include_str!("rules.sql");
const RULES: &str = section(SQL, "rules");
const PUT_RULE: &str = section(SQL, "put_rule");
const REMOVE_RULE: &str = section(SQL, "remove_rule");
const UNBLOCK_KEYS: &str = section(SQL, "unblock_keys");
pub(super) const TAKE_PERMIT: &str = section(SQL, "take_permit");
static PERMIT_RUNNING: Statement = statement!(SQL, "permit_running");

impl Shared {
    pub(super) async fn change_rule(&self, scope: Scope, name: &str, edit: RuleEdit, by: Option<&str>) -> Result<Rule> {
        let (name, by) = (name.to_owned(), by.map(str::to_owned));
        self.write("set a rule", move |connection, now| {
            let rule = edited(named(read(connection)?, scope, &name), edit)?;
            put(connection, &rule, now)?;
            audit::write(connection, by.as_deref(), "rule", &serde_json::json!(rule), now)?;
            Ok(rule)
        })
        .await
    }

    pub(super) async fn rules(&self) -> Result<Vec<Rule>> {
        self.query("read the rules", |connection, _| Ok(read(connection)?)).await
    }

    pub(super) async fn rule_faults(&self) -> Result<Vec<UnreadableRow>> {
        self.query("read the rules", |connection, _| Ok(read_all(connection)?.1)).await
    }
}

fn put(connection: &Connection, rule: &Rule, now: Micros) -> Work<()> {
    let (scope, prefix) = (rule.scope.as_str(), rule.scope.prefix());
    if rule.is_empty() {
        let params = named_params! { ":scope": scope, ":name": rule.name };
        connection.prepare_cached(REMOVE_RULE)?.execute(params)?;
    } else {
        let shares = rule
            .shares
            .as_ref()
            .map(serde_json::to_string)
            .transpose()
            .map_err(|error| Error::invalid("the shares of a rule can't be written as JSON").with_source(error))?;
        connection.prepare_cached(PUT_RULE)?.execute(named_params! {
            ":scope": scope,
            ":name": rule.name,
            ":paused": rule.paused,
            ":running": rule.running,
            ":rate": rule.rate.map(|rate| rate.starts),
            ":period": rule.rate.map(|rate| micros(rate.period)),
            ":aging": rule.aging.map(micros),
            ":depth": rule.depth.map(|depth| count(usize::try_from(depth).unwrap_or(usize::MAX))),
            ":shares": shares,
            ":now": now,
        })?;
    }
    if rule.running.is_some() {
        adopt(connection, rule)?;
    }
    let blocked_on = format!("{prefix}{}", rule.name);
    let params = named_params! { ":blocked_on": blocked_on, ":name": rule.name, ":prefix": prefix };
    connection.prepare_cached(UNBLOCK_KEYS)?.execute(params)?;
    Ok(())
}

/// Gives permits to jobs that already run, or were admitted.
fn adopt(connection: &Connection, rule: &Rule) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(&PERMIT_RUNNING)?;
    let params = named_params! { ":scope": rule.scope.as_str(), ":name": rule.name };
    let started = statement
        .query_map(params, |row| {
            Ok((
                row.get::<_, Vec<u8>>("id")?,
                row.get::<_, String>("queue")?,
                row.get::<_, String>("kind")?,
                options(row, "options")?,
            ))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let mut take = connection.prepare_cached(TAKE_PERMIT)?;
    for (id, queue, kind, options) in started {
        if let Some(subject) = subject(rule.scope, queue, kind, options) {
            let key = format!("{}{subject}", rule.scope.prefix());
            take.execute(named_params! { ":id": id, ":key": key })?;
        }
    }
    Ok(())
}

/// Returns the name under which a rule of this scope covers a job.
fn subject(scope: Scope, queue: String, kind: String, options: JobOptions) -> Option<String> {
    match scope {
        Scope::Queue => Some(queue),
        Scope::Kind => Some(kind),
        Scope::Tenant => options.tenant,
        Scope::Key => options.limit_key,
        Scope::Group => options.group,
    }
}

/// Returns all rules.
pub(super) fn read(connection: &Connection) -> rusqlite::Result<Vec<Rule>> {
    let (rules, faults) = read_all(connection)?;
    log_faults(&faults);
    Ok(rules)
}

/// Reads rules, and reports the values that can't be read. Those must not disable the other limits, or let more jobs start than a rule
/// allows.
fn read_all(connection: &Connection) -> rusqlite::Result<(Vec<Rule>, Vec<UnreadableRow>)> {
    let mut faults = Vec::new();
    let mut statement = connection.prepare_cached(RULES)?;
    let rules = statement.query_map([], |row| rule(row, &mut faults))?.collect::<rusqlite::Result<_>>()?;
    Ok((rules, faults))
}

fn rule(row: &Row<'_>, faults: &mut Vec<UnreadableRow>) -> rusqlite::Result<Rule> {
    let scope: String = row.get("scope")?;
    let scope = scope.parse().map_err(|error: Error| broken("scope", Type::Text, error))?;
    let duration = |micros: Micros| Duration::from_micros(micros.max(0).unsigned_abs());
    let mut rule = Rule::new(scope, row.get::<_, String>("name")?);
    rule.paused = row.get("paused")?;
    // A limit beyond this type's range is equivalent to its maximum.
    let number = |n: i64| u32::try_from(n).unwrap_or(u32::MAX);
    rule.running = row.get::<_, Option<i64>>("running")?.map(number);
    let rate: (Option<u32>, Option<Micros>) = (row.get::<_, Option<i64>>("rate")?.map(number), row.get("period")?);
    if let (Some(starts), Some(period)) = rate {
        rule.rate = Some(Rate { starts, period: duration(period) });
    }
    rule.aging = row.get::<_, Option<Micros>>("aging")?.map(duration);
    rule.depth = row.get::<_, Option<i64>>("depth")?.map(i64::unsigned_abs);
    let shares: Option<String> = row.get("shares")?;
    rule.shares = shares.and_then(|text| {
        let read = serde_json::from_str(&text).map_err(|error| {
            faults.push(UnreadableRow {
                name: format!("{} {}", rule.scope, rule.name),
                why: format!("its shares: {error}"),
            });
        });
        read.ok()
    });
    Ok(rule)
}
