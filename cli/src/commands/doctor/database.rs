//! Checks the database: whether it answers, and what it contains.

use std::path::Path;

use jobwright::config::{Access, Backend};
use jobwright::store::Count;
use jobwright::{AnyStore, MessageServices};

use super::finding::State;
use super::installation::{self, Known};
use super::{Finding, connections, engine, postgres, rights, sqlite};
use crate::commands::Messages;
use crate::commands::slow_notice::with_slow_notice;
use crate::config::Settings;
use crate::grants::Purpose;

pub(super) async fn check(settings: &Settings, purpose: Option<Purpose>, known: &mut Known) -> Vec<Finding> {
    if let Ok(Backend::Sqlite(path)) = settings.database.backend()
        && !Path::new(path).exists()
    {
        // The check would create it.
        return vec![Finding::warn(
            "database",
            format!("the file {path} does not exist"),
            "`jobwright migrate` or `jobwright worker` makes it; is it the right place?",
        )];
    }
    let look = settings.database.clone().access(Access::ReadOnly);
    let store = match with_slow_notice(settings, AnyStore::connect(&look)).await {
        Ok(store) => store,
        Err(error) => {
            let todo =
                "check `database.url` (DATABASE_URL), that the server runs and lets this host in, and the password";
            return vec![Finding::error("database", error, todo)];
        }
    };
    let messages = MessageServices::new(store, &settings.database);
    let mut findings = vec![Finding::ok("database", messages.admin().describe())];
    let schema = with_slow_notice(settings, schema(&messages)).await;
    // A role that may not read the migrations may still read the rest.
    let complete = schema.state != State::Fail;
    match settings.database.backend() {
        Ok(Backend::Postgres(_)) => {
            findings.extend(with_slow_notice(settings, postgres::server(&messages, &settings.database, purpose)).await);
            findings.push(postgres::primaries(&settings.database).await);
        }
        _ => findings.extend(sqlite::check(&messages).await),
    }
    findings.push(schema);
    if matches!(settings.database.backend(), Ok(Backend::Postgres(_))) {
        findings.push(with_slow_notice(settings, postgres::publications(&messages, &settings.database)).await);
    }
    if complete {
        findings.push(with_slow_notice(settings, installation::database(&messages, known)).await);
        if matches!(settings.database.backend(), Ok(Backend::Postgres(_))) {
            findings.push(with_slow_notice(settings, connections::check(&messages, &settings.database)).await);
            findings.push(with_slow_notice(settings, rights::check(settings, &messages, purpose)).await);
        } else {
            findings.push(with_slow_notice(settings, sqlite::nodes(&messages)).await);
        }
        findings.push(with_slow_notice(settings, nodes(&messages, known)).await);
        findings.extend(engine::check(settings, &messages).await);
    }
    findings
}

async fn schema(messages: &Messages) -> Finding {
    const CHECK: &str = "database schema";
    let steps = match messages.admin().migration_status().await {
        Ok(steps) => steps,
        Err(error) => {
            return Finding::error(
                CHECK,
                error,
                "the error says what to do; docs/upgrading.md has the order of an upgrade",
            );
        }
    };
    let missing: Vec<String> =
        steps.iter().filter(|step| step.applied_at.is_none()).map(|step| step.version.to_string()).collect();
    let newer = steps.iter().filter(|step| !step.compatible).count();
    if newer > 0 {
        return Finding::fail(
            CHECK,
            format!("{newer} versions that this program is too old for"),
            "upgrade this program",
        );
    }
    if !missing.is_empty() {
        let found = format!("version {} is missing", missing.join(", "));
        return Finding::fail(CHECK, found, "run `jobwright migrate`");
    }
    let newest = steps.last().map_or(0, |step| step.version);
    Finding::ok(CHECK, format!("version {newest}, nothing missing, nothing edited"))
}

async fn nodes(messages: &Messages, known: &mut Known) -> Finding {
    const CHECK: &str = "nodes";
    let status = match messages.admin().status().await {
        Ok(status) => status,
        Err(error) => return Finding::error(CHECK, error, "looking needs `select` on all tables of the schema"),
    };
    known.count(&status);
    let alive = status.nodes.iter().filter(|node| !node.dead).count();
    let waiting: Count = status.queues.iter().map(|queue| queue.waiting + queue.blocked + queue.overdue).sum();
    match (alive, waiting) {
        (0, Count::Exact(0)) => Finding::ok(CHECK, "none alive, and nothing waits"),
        (0, waiting) => {
            let todo = "start `jobwright worker`; if one runs, it meets another server, schema or file than this command: compare \
                        what `database.url` leads to there";
            Finding::fail(CHECK, format!("none alive here, and {waiting} jobs wait or are due"), todo)
        }
        _ => Finding::ok(CHECK, format!("{alive} alive")),
    }
}
