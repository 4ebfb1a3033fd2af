//! Checks the database: whether it answers, and what it contains.

use std::path::Path;

use jobwright::admin::{Count, NodeStatus, StatusReport};
use jobwright::internal::{Access, Backend};
use jobwright::{AnyStore, MessageServices};

use super::finding::State;
use super::installation::{self, Known};
use super::{Finding, commits, connections, engine, locks, postgres, rights, sqlite};
use crate::commands::Messages;
use crate::commands::slow_notice::with_slow_notice;
use crate::config::Settings;
use crate::grants::Purpose;
use crate::output::counted;

pub(super) async fn check(settings: &Settings, purpose: Option<Purpose>, known: &mut Known) -> Vec<Finding> {
    if let Ok(Backend::Sqlite(path)) = settings.database.backend()
        && !Path::new(path).exists()
    {
        // The check would create it.
        return vec![Finding::warn(
            "database",
            format!("the file {path} does not exist"),
            "`jobwright migrate` or `jobwright worker` creates it; check that this is the right place",
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
            findings.push(with_slow_notice(settings, locks::check(&messages, &settings.database)).await);
            findings.push(with_slow_notice(settings, commits::check(&messages, &settings.database)).await);
        }
        _ => {
            findings.extend(sqlite::check(&messages).await);
            findings.extend(sqlite::disk(&messages));
        }
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
        let status = match with_slow_notice(settings, messages.admin().status()).await {
            Ok(status) => {
                findings.push(nodes(&status, known));
                Some(status)
            }
            Err(error) => {
                findings.push(Finding::error(NODES, error, "this check needs `select` on all tables of the schema"));
                None
            }
        };
        findings.extend(engine::check(settings, &messages, status.as_ref()).await);
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
                "follow the advice in the error; docs/upgrading.md has the order of an upgrade",
            );
        }
    };
    let missing: Vec<String> =
        steps.iter().filter(|step| step.applied_at.is_none()).map(|step| step.version.to_string()).collect();
    let newer = steps.iter().filter(|step| !step.compatible).count();
    if newer > 0 {
        return Finding::fail(
            CHECK,
            format!("this program is too old for {}", counted(newer as u64, "version")),
            "upgrade this program",
        );
    }
    if !missing.is_empty() {
        let found = format!("version {} is missing", missing.join(", "));
        return Finding::fail(CHECK, found, "run `jobwright migrate`");
    }
    let newest = steps.last().map_or(0, |step| step.version);
    Finding::ok(CHECK, format!("version {newest}, complete and unmodified"))
}

/// The check of the nodes.
const NODES: &str = "nodes";
/// How long after the end of a lease other nodes have released the jobs of a dead node: in about another lease, and few are longer than this.
const RELEASED: f64 = -300.0;

/// Names the nodes whose jobs no living node releases.
fn unreleased(nodes: &[NodeStatus]) -> Option<Finding> {
    let is_left = |node: &&NodeStatus| node.lease_seconds_left < RELEASED && node.running != 0;
    let left: Vec<_> = nodes
        .iter()
        .filter(is_left)
        .map(|node| {
            let NodeStatus { id, name, running, lease_seconds_left, .. } = node;
            format!(
                "the lease of node {id} ({name}) ended {:.0} s ago, and it still has jobs ({running})",
                -lease_seconds_left
            )
        })
        .collect();
    let todo = "a living node releases them once its monitor has seen no heartbeat for the length of that node's lease: see below whether its tasks \
                fail. `jobwright nodes evict ID` releases them at once, if that process is dead";
    (!left.is_empty()).then(|| Finding::warn(NODES, left.join("; "), todo))
}

fn nodes(status: &StatusReport, known: &mut Known) -> Finding {
    known.count(status);
    let alive = status.nodes.iter().filter(|node| !node.dead).count();
    let waiting: Count = status.queues.iter().map(|queue| queue.waiting + queue.blocked + queue.overdue).sum();
    match (alive, waiting) {
        (0, Count::Exact(0)) => Finding::ok(NODES, "none alive, and nothing waits"),
        (0, _) if status.workers.iter().any(|worker| worker.alive) => {
            let todo = "start `jobwright worker`, with or without handlers: workers by SQL run jobs, but only a node makes timers due, admits the jobs \
                        of groups and limits, fires schedules, and releases what dead workers hold";
            Finding::warn(NODES, "none alive; workers by SQL take jobs", todo)
        }
        (0, waiting) => {
            let todo = "start `jobwright worker`; if one is running, it uses another server, schema or file than this command: compare its \
                        `database.url`";
            Finding::fail(NODES, format!("none alive here, and jobs wait or are due: {waiting}"), todo)
        }
        _ => unreleased(&status.nodes).unwrap_or_else(|| Finding::ok(NODES, format!("{alive} alive"))),
    }
}
