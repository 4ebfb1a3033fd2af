//! The catalogue of statements. Each is a file in `sql/`, whose header says why it is shaped so and names its parameters.

use tokio_postgres::types::Type;

use super::qualify::qualified;
use super::{job_columns, parameters};
use crate::config::Keep;
use crate::store::HistoryOutcome;
use crate::store::settle::ERRORS_KEPT;

/// One statement.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(super) name: &'static str,
    pub(super) sql: String,
    /// The types of its parameters.
    pub(super) types: Vec<Type>,
}

/// Fragments that several statements share.
const MAY_START: &str = include_str!("sql/fragment/may_start.sql");
const UNCOVERED: &str = include_str!("sql/fragment/uncovered.sql");
const COUNTED: &str = include_str!("sql/fragment/counted.sql");
const UNCOUNTED_USAGE: &str = include_str!("sql/fragment/uncounted_usage.sql");
const COVERS: &str = include_str!("sql/fragment/covers.sql");
const QUEUE_OPEN: &str = include_str!("sql/fragment/queue_open.sql");
const RENEWED: &str = include_str!("sql/fragment/renewed.sql");
const STATE: &str = include_str!("sql/fragment/state.sql");
const GIVEN_IDS: &str = include_str!("sql/fragment/given_ids.sql");
const FIRST_SUBMISSIONS: &str = include_str!("sql/fragment/first_submissions.sql");
const UNKNOWN: &str = include_str!("sql/fragment/unknown.sql");
const OLD: &str = include_str!("sql/fragment/old.sql");
const ORPHANED: &str = include_str!("sql/fragment/orphaned.sql");
const TTL: &str = include_str!("sql/fragment/ttl.sql");
const BURIED: &str = include_str!("sql/fragment/buried.sql");
const KEPT_ERRORS: &str = include_str!("sql/fragment/kept_errors.sql");
const FIT_NUMBERS: &str = include_str!("sql/fragment/fit_numbers.sql");
const FIT_OPTIONS: &str = include_str!("sql/fragment/fit_options.sql");
const BRIEFLY: &str = include_str!("sql/fragment/briefly.sql");
const TAKEN_BACK: &str = include_str!("sql/fragment/taken_back.sql");

/// The conditions of a [`JobFilter`](crate::store::JobFilter) on every row. Each statement applies the states itself.
const OWN_FILTER: &str = include_str!("sql/filter.sql");
/// The parameters of a filter, in the order of `Filter::params`.
const FILTER_PARAMETERS: &str = ":ids::uuid[], :states::text[], :queue::text, :kind::text, :error::text, \
     :created_since::timestamptz, :created_until::timestamptz, :dead_since::timestamptz, :dead_until::timestamptz, :options::jsonb";
/// The conditions on dead letters, with the time of death.
const DEAD_FILTER: &str = "{own_filter}
      and (:dead_since::timestamptz is null or dead_at >= :dead_since)
      and (:dead_until::timestamptz is null or dead_at < :dead_until)";
/// Those on jobs that are alive, which match no range of death times.
const LIVE_FILTER: &str = "{own_filter}
      and :dead_since::timestamptz is null
      and :dead_until::timestamptz is null";

/// Fills in the shared fragments, the schema (`{schema}` as a quoted identifier), the notification channel (`{channel}`), and how many
/// errors a job keeps.
pub(super) fn render(sql: &str, schema: &str) -> String {
    render_keeping(sql, schema, Keep::Off)
}

/// Like `render`, with the clauses that write history. Lines that begin with `--{all}` are included if all history is kept, those with
/// `--{failed}` if any is. A statement contains no clause that is not needed.
fn render_keeping(sql: &str, schema: &str, keep: Keep) -> String {
    let lines = sql.lines().filter_map(|line| match line.strip_prefix("--{all}") {
        Some(line) => (keep == Keep::All).then_some(line),
        None => match line.strip_prefix("--{failed}") {
            Some(line) => (keep != Keep::Off).then_some(line),
            None => Some(line),
        },
    });
    expand(&lines.collect::<Vec<_>>().join("\n"), &|name| filled(name, schema, keep))
}

/// Replaces each name in braces, and those in what takes its place, in one pass: this is done for every statement when a program connects.
fn expand(sql: &str, of: &dyn Fn(&str) -> Option<String>) -> String {
    let mut text = String::with_capacity(2 * sql.len());
    let mut rest = sql;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        text.push_str(before);
        let name = from.find('}').map(|end| &from[1..end]);
        match name.and_then(|name| Some((name.len() + 2, of(name)?))) {
            Some((length, filling)) => {
                text.push_str(&expand(&filling, of));
                rest = &from[length..];
            }
            None => {
                text.push('{');
                rest = &from[1..];
            }
        }
    }
    text.push_str(rest);
    text
}

/// Returns what takes the place of a name in braces.
fn filled(name: &str, schema: &str, keep: Keep) -> Option<String> {
    if let Some(queue) = name.strip_prefix("queue_open(").and_then(|rest| rest.strip_suffix(')')) {
        return Some(fragment(QUEUE_OPEN).replace("{queue}", queue));
    }
    if let Some((name, of)) = name.split_once(':') {
        let one = match name {
            "covers" => COVERS,
            "kept_errors" => KEPT_ERRORS,
            "fit_numbers" => FIT_NUMBERS,
            "orphaned" => ORPHANED,
            _ => return job_columns::of_row(name, of),
        };
        return Some(fragment(one).replace("{row}", of));
    }
    Some(match name {
        "schema" => format!("\"{schema}\""),
        "channel" => channel(schema),
        "errors_kept" => ERRORS_KEPT.to_string(),
        "kept" => {
            let kept = HistoryOutcome::ALL.iter().filter(|ending| keep == Keep::All || ending.is_failure());
            kept.map(|ending| format!("'{ending}'")).collect::<Vec<_>>().join(", ")
        }
        "buried" => fragment(BURIED),
        "fit_options" => fragment(FIT_OPTIONS),
        "may_start" => fragment(MAY_START),
        "uncovered" => fragment(UNCOVERED),
        "uncounted_usage" => fragment(UNCOUNTED_USAGE).trim_end().to_owned(),
        "counted" => fragment(COUNTED),
        "renewed" => fragment(RENEWED),
        "ttl" => fragment(TTL),
        "given_ids" => fragment(GIVEN_IDS).trim_end().to_owned(),
        "first_submissions" => fragment(FIRST_SUBMISSIONS).trim_end().to_owned(),
        "unknown" => fragment(UNKNOWN).trim_end().to_owned(),
        "old" => fragment(OLD).trim_end().to_owned(),
        "state" => fragment(STATE),
        "briefly" => fragment(BRIEFLY),
        "taken_back" => fragment(TAKEN_BACK).trim_end().to_owned(),
        "filter_parameters" => FILTER_PARAMETERS.to_owned(),
        "dead_filter" => DEAD_FILTER.to_owned(),
        "filter" => LIVE_FILTER.to_owned(),
        "own_filter" => OWN_FILTER.trim_end().to_owned(),
        _ => return job_columns::filled(name),
    })
}

/// A fragment is inserted within a line, where a comment would hide what follows.
fn fragment(text: &'static str) -> String {
    without_comments(text)
}

fn without_comments(sql: &str) -> String {
    sql.lines().filter(|line| !line.trim_start().starts_with("--")).collect::<Vec<_>>().join("\n")
}

/// Returns the notification channel of a schema.
pub(super) fn channel(schema: &str) -> String {
    format!("{schema}_wake")
}

impl Statement {
    /// Builds a statement from its file. Its name comes first because the server's views and logs may cut the text off. Comments are left
    /// out: without them the text is shorter to send and to look up on each call.
    fn new(name: &'static str, file: &str, schema: &str, keep: Keep) -> Self {
        let (sql, types) = parameters::positional(&render_keeping(file, schema, keep));
        Self { name, sql: format!("{}\n{}", Self::mark(name), qualified(&without_comments(&sql))), types }
    }

    /// Returns the beginning of the text of a statement.
    pub(super) fn mark(name: &str) -> String {
        format!("/* jobwright {name} */")
    }
}

/// Where suspects wait: as in suspects.sql.
const OF_SUSPECTS: &str = "c.blocked_on = (select 'alone'::text) and c.share = ''";

/// Builds the claim of suspects (suspects.sql) from an ordinary claim, which has to obey the same rules: only the rows are others.
fn of_suspects(name: &'static str, claim: &'static str, schema: &str) -> Statement {
    let of_suspects =
        claim.replace("c.blocked_on is null", OF_SUSPECTS).replace("coalesce(c.blocked_on, '') = ''", OF_SUSPECTS);
    Statement::new(name, &of_suspects, schema, Keep::Off)
}

macro_rules! statements {
    ($($name:ident),* $(,)?) => {
        /// All statements, for one schema.
        #[derive(Debug)]
        pub(crate) struct Statements {
            $(pub(super) $name: Statement,)*
            pub(super) claim_suspect: Statement,
            pub(super) claim_suspect_counted: Statement,
        }

        impl Statements {
            pub(super) fn new(schema: &str, keep: Keep) -> Self {
                Self {
                    $($name: Statement::new(
                        stringify!($name),
                        include_str!(concat!("sql/", stringify!($name), ".sql")),
                        schema,
                        keep,
                    ),)*
                    claim_suspect: of_suspects("claim_suspect", include_str!("sql/claim.sql"), schema),
                    claim_suspect_counted: of_suspects("claim_suspect_counted", include_str!("sql/claim_counted.sql"), schema),
                }
            }

            /// Iterates over all statements and their names.
            pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, &Statement)> {
                let suspects = [
                    ("claim_suspect", &self.claim_suspect),
                    ("claim_suspect_counted", &self.claim_suspect_counted),
                ];
                [$((stringify!($name), &self.$name)),*].into_iter().chain(suspects)
            }
        }
    };
}

statements! {
    insert_one, insert_one_named, insert_one_hidden, insert_alike, insert_ready, insert_hidden, insert_any, insert_owned, insert_options,
    insert_alike_options, known_ids, lock_ids, take_unique, full_queues, history, prune_history, prune_audit, prune_dead_letters, keep_result,
    result, prune_results, record_progress, progress, prune_progress, find, claim, claim_counted, lock_limits, drop_usage, claim_delivered,
    waiting, readable, delivered, dead_letter_unreadable, dead_letter_timers, park_unreadable, park_timer, rehearse_claim, rehearse_release,
    lost, late, dead_letter_external, unowned, expired, due_timers, promote_named, aging_jobs, old_jobs, orphaned_permits, reclaim_permits, unblock_stuck,
    keep_vanished, left_keys, prune_keys, unhide, complete, complete_at, complete_holding, complete_keyed, remove_and_lease,
    complete_and_claim_next, remove, remove_all, settle, release, put_off, held_jobs, lock_holders, promote, expire_jobs, expire_keys, travel, register_node,
    heartbeat, node_heartbeats, declare_dead, idle_nodes, idle_of, wait_for_node, job_pages, owners, release_lost, unknown, release_unknown,
    release_unknown_free, release_claimed, handlers_ended, unknown_terminating, claimed_terminating, lost_terminating, forget_nodes, retire_node,
    server, report_broker, report_left_alone, takes_writes, hand_out, report_key, take_back, take_back_locked, complete_external,
    settle_external, extend_external, external_late, expire_external, receive, submission_digests, remember_submissions, prune_submissions, maintenance_due, repair_unblocks,
    repair_rates, repair_leases, repair_lives, repair_timer_lives, repair_retries, repair_uniques, clock_skew, admit_check, admit_lock,
    admit_candidates, admit_usage, admit_apply, aging_queues, age, prune_rate_log, permit_faults, overdue_unblocks, rules, put_rule, live_nodes,
    permit_running, notify, status_queues, status_nodes, list, show, show_bare, show_external, count, count_some, retry, retry_spread,
    dead_letter_groups, choose, list_ids, suspend, resume, run_now, change_idle, change_waiting, stale_claims, evict, audit, audit_write,
    audit_count, cancel, delete, schedule_next, schedule_named, schedule_page, schedule_due, schedule_insert, schedule_update, schedule_delete,
    schedule_lock, schedule_fired, installation, system_identifier, adopt, new_report_key, suspects, acquit,
}

/// Returns a statement as it is sent, but for its name and with its comments.
pub(in crate::store) fn rendered(sql: &str, schema: &str) -> String {
    qualified(&parameters::positional(&render(sql, schema)).0)
}

/// Returns all statements as they are sent: name, text, and parameter types.
pub(in crate::store) fn all_statements(schema: &str, keep: crate::config::Keep) -> Vec<(String, String, Vec<String>)> {
    let statements = Statements::new(schema, keep);
    let all = statements.all().map(|(name, statement)| {
        let types = statement.types.iter().map(ToString::to_string).collect();
        (name.to_owned(), statement.sql.clone(), types)
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_begins_with_its_name_and_has_no_comments() {
        let sql = Statements::new("s", Keep::All).claim.sql;
        assert!(sql.starts_with("/* jobwright claim */\nwith me as materialized (\n"), "{sql}");
        assert!(!sql.contains("--") && sql.contains("\"s\".hold_node("), "{sql}");
    }

    /// Statements that may wait for a row, a key or an id for as long as a call may take, and why that holds up nobody else's work.
    const MAY_WAIT: &[(&str, &str)] = &[
        ("admit_candidates", "of its rows only the engine locks any"),
        ("adopt", "an owner's own call"),
        ("admit_lock", "passes exclude each other; the row needs an executor's rights"),
        ("audit_count", "an operator's own entry"),
        ("audit_write", "an operator's own entry"),
        ("cancel", "an operator's own call"),
        ("change_idle", "an operator's own call"),
        ("change_waiting", "an operator's own call"),
        ("claimed_terminating", "only the engine locks these rows"),
        ("delete", "an operator's own call"),
        ("drop_usage", "only the engine locks these rows"),
        ("evict", "an operator's own call"),
        ("forget_nodes", "only the engine locks rows of dead nodes"),
        ("handlers_ended", "only the engine locks these rows"),
        ("heartbeat", "the node's own row"),
        ("insert_alike", "a sender's own jobs, with ids that no other has"),
        ("insert_alike_options", "a sender's own jobs, with ids that no other has"),
        ("insert_any", "a sender's own jobs"),
        ("insert_hidden", "a sender's own jobs, with ids that no other has"),
        ("insert_one", "a sender's own job"),
        ("insert_one_hidden", "a sender's own job"),
        ("insert_one_named", "a sender's own job"),
        ("insert_options", "a sender's own jobs, with ids that no other has"),
        ("insert_owned", "a sender's own jobs"),
        ("insert_ready", "a sender's own jobs, with ids that no other has"),
        ("keep_result", "a handler's own job"),
        ("keep_vanished", "only the engine locks these rows"),
        ("known_ids", "a sender's own jobs, or in a transaction whose owner says for how long"),
        ("lock_ids", "a sender's own jobs"),
        ("lock_limits", "executors and operators only"),
        ("lost_terminating", "only the engine locks these rows"),
        ("new_report_key", "an owner's own call"),
        ("park_unreadable", "a row that kept a claim from succeeding"),
        ("permit_running", "an operator's own call"),
        ("put_rule", "an operator's own call"),
        ("record_progress", "a handler's own job"),
        ("register_node", "the node's own row"),
        ("remove", "a handler's own job"),
        ("remove_all", "a handler's own jobs"),
        ("remove_and_lease", "a handler's own job"),
        ("report_broker", "the node's own row"),
        ("report_left_alone", "the node's own row"),
        ("resume", "an operator's own call"),
        ("retire_node", "the node's own row"),
        ("retry", "an operator's own call"),
        ("retry_spread", "an operator's own call"),
        ("run_now", "an operator's own call"),
        ("schedule_delete", "an operator's own call"),
        ("schedule_fired", "in a transaction that waits briefly"),
        ("schedule_insert", "an operator's own call"),
        ("schedule_update", "an operator's own call"),
        ("suspend", "an operator's own call"),
        ("take_unique", "in a transaction whose owner says for how long"),
        ("takes_writes", "it changes no row"),
        ("travel", "for tests"),
        ("unblock_stuck", "it inserts rows that no other can meet"),
        ("unknown_terminating", "only the engine locks these rows"),
    ];

    /// A statement that is not in the list passes over locked rows, or waits for them briefly.
    #[test]
    fn no_statement_with_the_work_of_several_waits_for_a_row_that_others_lock() {
        let all = Statements::new("s", Keep::All);
        let writes = |sql: &str| {
            [
                "update \"s\".",
                "delete from \"s\".",
                "insert into \"s\".",
                "for update",
                "for share",
                "take_unique(",
                "decide_ids(",
                "lock_limits(",
                "advisory",
            ]
            .iter()
            .any(|word| sql.contains(word))
        };
        let passes = |sql: &str| sql.contains("skip locked") || sql.contains("'lock_timeout'");
        let waits: Vec<&str> =
            all.all().filter(|(_, s)| writes(&s.sql) && !passes(&s.sql)).map(|(name, _)| name).collect();
        for name in &waits {
            assert!(
                MAY_WAIT.iter().any(|(known, _)| known == name),
                "{name} may wait for a row that another transaction holds: see {BRIEFLY}"
            );
        }
        for (name, _) in MAY_WAIT {
            assert!(waits.contains(name), "{name} waits for nothing, and is in the list");
        }
    }
}
