//! The catalogue of statements. Each is a section of the file of its topic, whose header says why it is shaped so and names its parameters.

use std::sync::Arc;

use tokio_postgres::types::Type;

use super::qualify::qualified;
use super::{job_columns, parameters};
use crate::config::Keep;
use crate::store::HistoryOutcome;
use crate::store::sections::section;
use crate::store::settle::ERRORS_KEPT;

/// One statement.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(super) name: &'static str,
    pub(super) sql: Arc<str>,
    /// The types of its parameters.
    pub(super) types: Vec<Type>,
}

macro_rules! fragments {
    ($($name:ident),* $(,)?) => {
        /// Fragments that several statements share, and their names.
        const FRAGMENTS: &[(&str, &str)] =
            &[$((stringify!($name), section(include_str!("fragments.sql"), stringify!($name)))),*];
    };
}

fragments! {
    own_filter, awaits_admission, briefly, buried, counted, covers, first_submissions, fit_numbers, fit_options, given_ids, kept_errors,
    may_start, old, orphaned, queue_open, renewed, state, taken_back, ttl, uncounted_usage, uncovered, owned_unknown,
    sampled, schedules, sent_columns, numbered, share, unexpired, visible, watched, blocked_and_later, remembered_done,
}

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
    if let Some((name, argument)) = name.strip_suffix(')').and_then(|call| call.split_once('(')) {
        return fragment(name).map(|text| text.replace("{argument}", argument));
    }
    if let Some((name, of)) = name.split_once(':') {
        return fragment(name).map(|text| text.replace("{row}", of)).or_else(|| job_columns::of_row(name, of));
    }
    Some(match name {
        "schema" => format!("\"{schema}\""),
        "channel" => channel(schema),
        "errors_kept" => ERRORS_KEPT.to_string(),
        "kept" => {
            let kept = HistoryOutcome::ALL.iter().filter(|ending| keep == Keep::All || ending.is_failure());
            kept.map(|ending| format!("'{ending}'")).collect::<Vec<_>>().join(", ")
        }
        "filter_parameters" => FILTER_PARAMETERS.to_owned(),
        "dead_filter" => DEAD_FILTER.to_owned(),
        "filter" => LIVE_FILTER.to_owned(),
        _ => return fragment(name).or_else(|| job_columns::filled(name)),
    })
}

/// Returns a fragment. It is inserted within a line, where a comment would hide what follows.
fn fragment(name: &str) -> Option<String> {
    let &(_, text) = FRAGMENTS.iter().find(|(known, _)| *known == name)?;
    Some(without_comments(text))
}

fn without_comments(sql: &str) -> String {
    sql.lines().filter(|line| !line.trim_start().starts_with("--")).collect::<Vec<_>>().join("\n")
}

/// Returns the notification channel of a schema.
pub(super) fn channel(schema: &str) -> String {
    format!("{schema}_wake")
}

impl Statement {
    /// Builds a statement from its section. Its name comes first because the server's views and logs may cut the text off. Comments are left
    /// out: without them the text is shorter to send and to look up on each call.
    fn new(name: &'static str, section: &str, schema: &str, keep: Keep) -> Self {
        let (sql, types) = parameters::positional(&render_keeping(section, schema, keep));
        let sql = format!("{}\n{}", Self::mark(name), qualified(&without_comments(&sql)));
        Self { name, sql: sql.into(), types }
    }

    /// Returns the beginning of the text of a statement.
    pub(super) fn mark(name: &str) -> String {
        format!("/* jobwright {name} */")
    }
}

/// Where suspects wait: as in `suspects`.
const OF_SUSPECTS: &str = "c.blocked_on = (select 'alone'::text) and c.share = ''";

/// Builds the claim of suspects (as in `suspects`) from an ordinary claim, which has to obey the same rules: only the rows are others.
fn of_suspects(name: &'static str, claim: &'static str, schema: &str) -> Statement {
    let of_suspects =
        claim.replace("c.blocked_on is null", OF_SUSPECTS).replace("coalesce(c.blocked_on, '') = ''", OF_SUSPECTS);
    Statement::new(name, &of_suspects, schema, Keep::Off)
}

/// Builds a statement for timers from one for waiting jobs: those have no owner.
fn of_timers(name: &'static str, waiting: &'static str, schema: &str) -> Statement {
    let of_timers = waiting.replace("{schema}.job ", "{schema}.timer_job ").replace(" and c.lock_owner is null", "");
    Statement::new(name, &of_timers, schema, Keep::Off)
}

macro_rules! statements {
    ($($file:literal: $($name:ident),* ;)*) => {
        /// All statements, for one schema.
        #[derive(Debug)]
        pub(crate) struct Statements {
            $($(pub(super) $name: Statement,)*)*
            pub(super) claim_suspect: Statement,
            pub(super) claim_suspect_counted: Statement,
            pub(super) repair_timer_lives: Statement,
        }

        impl Statements {
            pub(super) fn new(schema: &str, keep: Keep) -> Self {
                Self {
                    $($($name: Statement::new(
                        stringify!($name),
                        const { section(include_str!($file), stringify!($name)) },
                        schema,
                        keep,
                    ),)*)*
                    claim_suspect: of_suspects(
                        "claim_suspect",
                        const { section(include_str!("claim.sql"), "claim") },
                        schema,
                    ),
                    claim_suspect_counted: of_suspects(
                        "claim_suspect_counted",
                        const { section(include_str!("counting.sql"), "claim_counted") },
                        schema,
                    ),
                    repair_timer_lives: of_timers(
                        "repair_timer_lives",
                        const { section(include_str!("clock.sql"), "repair_lives") },
                        schema,
                    ),
                }
            }

            /// Iterates over all statements and their names.
            pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, &Statement)> {
                let derived = [
                    ("claim_suspect", &self.claim_suspect),
                    ("claim_suspect_counted", &self.claim_suspect_counted),
                    ("repair_timer_lives", &self.repair_timer_lives),
                ];
                [$($((stringify!($name), &self.$name)),*),*].into_iter().chain(derived)
            }
        }
    };
}

statements! {
    "admin.sql":
        list, list_ids, show, show_bare, job_state, dead_letter_groups, history, result, audit;
    "admission.sql": admit_check, admit_lock, admit_candidates, lock_limits, admit_usage, admit_apply, unowned;
    "aging.sql": aging_queues, age, aging_jobs, old_jobs;
    "audit.sql": audit_write, audit_count;
    "claim.sql":
        claim, waiting, claim_delivered, delivered, suspects, acquit, release_unknown, release_unknown_free, unknown,
        unknown_terminating, release_claimed, claimed_terminating, job_pages;
    "checks.sql": sampled_whole, permit_faults, overdue_unblocks, overdue_work, unreadable_jobs;
    "clock.sql":
        repair_unblocks, repair_rates, repair_leases, repair_lives, repair_retries, repair_uniques,
        clock_skew;
    "commit_status.sql": find;
    "counting.sql": claim_counted;
    "expiring.sql": expire_jobs, expired, expire_keys;
    "external.sql":
        hand_out, report_key, take_back, take_back_locked, complete_external, show_external, settle_external,
        extend_external, external_late, expire_external, late, dead_letter_external;
    "group_claim.sql": complete_and_claim_next;
    "hints.sql": notify;
    "idle_timers.sql": park_timer, dead_letter_timers;
    "insert.sql":
        insert_one, insert_one_named, insert_one_hidden, insert_alike, insert_alike_options, insert_ready,
        insert_hidden, insert_options, insert_any, insert_owned, known_ids, lock_ids, take_unique, full_queues, unhide;
    "installation.sql": installation, system_identifier, adopt, new_report_key;
    "job_operations.sql": choose, suspend, resume, run_now, delete, cancel, change_idle, change_waiting, evict;
    "kinds.sql": waiting_kinds;
    "lock_watch.sql": lock_holders;
    "maintenance.sql":
        maintenance_due, promote, due_timers, promote_named, prune_history, prune_results, prune_progress,
        prune_submissions, prune_rate_log, prune_dead_letters, prune_audit;
    "nodes.sql":
        register_node, heartbeat, heartbeat_and_server, server, retire_node, wait_for_node, report_broker, report_left_alone, report_failing, takes_writes,
        node_heartbeats, watched_heartbeats, declare_dead, release_lost, lost, lost_terminating, owners, idle_nodes, idle_of, forget_nodes;
    "outcomes.sql":
        complete, complete_at, complete_holding, complete_keyed, put_off, handlers_ended, stale_claims, keep_vanished,
        record_progress, progress;
    "receive.sql": submission_digests, receive, remember_submissions;
    "reconcile.sql": orphaned_permits, unblock_stuck, reclaim_permits, left_keys, prune_keys;
    "retry.sql": count, count_some, retry, retry_spread;
    "rules.sql": rules, put_rule, permit_running, drop_usage, live_nodes;
    "schedules.sql":
        schedule_next, schedule_named, schedule_page, schedule_due, schedule_insert, schedule_update, schedule_delete,
        schedule_lock, schedule_fired;
    "send.sql": send_by_sql;
    "settle.sql": settle, release, held_jobs;
    "status.sql": status_sample, status_walk, status_nodes, sql_workers;
    "testing.sql": travel;
    "transaction.sql": remove, remove_and_lease, remove_all, keep_result, place;
    "unreadable.sql": rehearse_release, readable, rehearse_claim, dead_letter_unreadable, park_unreadable;
    "vacuum.sql": dead_rows, xmin_holders;
    "why.sql": serving_nodes, job_position, key_uses, key_holders, waiting_classes;
}

/// Returns all statements as they are sent: name, text, and parameter types.
pub(in crate::store) fn all_statements(schema: &str, keep: crate::config::Keep) -> Vec<(String, String, Vec<String>)> {
    let statements = Statements::new(schema, keep);
    let all = statements.all().map(|(name, statement)| {
        let types = statement.types.iter().map(ToString::to_string).collect();
        (name.to_owned(), statement.sql.to_string(), types)
    });
    all.collect()
}

#[cfg(test)]
mod tests;
