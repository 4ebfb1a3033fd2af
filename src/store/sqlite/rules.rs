//! Rules: see `store::rules`.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::types::Type;
use rusqlite::{Connection, Row, named_params};

use super::failure::Work;
use super::parts::{Statement, statement};
use super::rows::{Micros, broken, count, micros, terms};
use super::{Sqlite, audit};
use crate::error::{Error, Result};
use crate::job::Terms;
use crate::store::rules::{edited, named, tell};
use crate::store::{Rate, RowFault, Rule, RuleEdit, Rules, Scope};

const RULES: &str = include_str!("sql/rules.sql");
const PUT_RULE: &str = include_str!("sql/put_rule.sql");
const REMOVE_RULE: &str = include_str!("sql/remove_rule.sql");
const OPEN_GATES: &str = include_str!("sql/open_gates.sql");
const TAKE_SLOT: &str = include_str!("sql/take_slot.sql");
static ADOPT_RUNNING: Statement = statement!("sql/adopt_running.sql");
static ADOPT_EXTERNAL: Statement = statement!("sql/adopt_external.sql");

#[async_trait]
impl Rules for Sqlite {
    async fn change_rule(&self, scope: Scope, name: &str, edit: RuleEdit, by: Option<&str>) -> Result<Rule> {
        let (name, by) = (name.to_owned(), by.map(str::to_owned));
        self.inner
            .write("set a rule", move |connection, now| {
                let rule = edited(named(read(connection)?, scope, &name), edit)?;
                put(connection, &rule, now)?;
                audit::write(connection, by.as_deref(), "rule", &serde_json::json!(rule), now)?;
                Ok(rule)
            })
            .await
    }

    async fn rules(&self) -> Result<Vec<Rule>> {
        self.inner.query("read the rules", |connection, _| Ok(read(connection)?)).await
    }

    async fn rule_faults(&self) -> Result<Vec<RowFault>> {
        self.inner.query("read the rules", |connection, _| Ok(read_all(connection)?.1)).await
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
        adopt(connection, rule, &ADOPT_RUNNING)?;
        adopt(connection, rule, &ADOPT_EXTERNAL)?;
    }
    let gate = format!("{prefix}{}", rule.name);
    let params = named_params! { ":gate": gate, ":name": rule.name, ":prefix": prefix };
    connection.prepare_cached(OPEN_GATES)?.execute(params)?;
    Ok(())
}

/// Gives jobs that run already their places.
fn adopt(connection: &Connection, rule: &Rule, sql: &str) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(sql)?;
    let params = named_params! { ":scope": rule.scope.as_str(), ":name": rule.name };
    let started = statement
        .query_map(params, |row| {
            Ok((
                row.get::<_, Vec<u8>>("id")?,
                row.get::<_, String>("queue")?,
                row.get::<_, String>("kind")?,
                terms(row, "terms")?,
            ))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let mut take = connection.prepare_cached(TAKE_SLOT)?;
    for (id, queue, kind, terms) in started {
        if let Some(subject) = subject(rule.scope, queue, kind, terms) {
            let key = format!("{}{subject}", rule.scope.prefix());
            take.execute(named_params! { ":id": id, ":key": key })?;
        }
    }
    Ok(())
}

/// What a rule of a scope is about, in a job.
fn subject(scope: Scope, queue: String, kind: String, terms: Terms) -> Option<String> {
    match scope {
        Scope::Queue => Some(queue),
        Scope::Kind => Some(kind),
        Scope::Tenant => terms.tenant,
        Scope::Key => terms.limit_key,
        Scope::Group => terms.group,
    }
}

/// All rules.
pub(super) fn read(connection: &Connection) -> rusqlite::Result<Vec<Rule>> {
    let (rules, faults) = read_all(connection)?;
    tell(&faults);
    Ok(rules)
}

/// With what can't be read of them. That must not stop all others, and least of all let more start than it allows.
fn read_all(connection: &Connection) -> rusqlite::Result<(Vec<Rule>, Vec<RowFault>)> {
    let mut faults = Vec::new();
    let mut statement = connection.prepare_cached(RULES)?;
    let rules = statement.query_map([], |row| rule(row, &mut faults))?.collect::<rusqlite::Result<_>>()?;
    Ok((rules, faults))
}

fn rule(row: &Row<'_>, faults: &mut Vec<RowFault>) -> rusqlite::Result<Rule> {
    let scope: String = row.get("scope")?;
    let scope = scope.parse().map_err(|error: Error| broken("scope", Type::Text, error))?;
    let duration = |micros: Micros| Duration::from_micros(micros.max(0).unsigned_abs());
    let mut rule = Rule::new(scope, row.get::<_, String>("name")?);
    rule.paused = row.get("paused")?;
    // More than we count to is as good as that.
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
            faults
                .push(RowFault { name: format!("{} {}", rule.scope, rule.name), why: format!("its shares: {error}") });
        });
        read.ok()
    });
    Ok(rule)
}
