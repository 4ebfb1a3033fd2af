//! The catalogue of statements. Each is a section of the file of its topic, whose header says why it is shaped so and names its parameters.

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
    pub(super) sql: String,
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
        Self { name, sql: format!("{}\n{}", Self::mark(name), qualified(&without_comments(&sql))), types }
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
        list, list_ids, show, show_bare, dead_letter_groups, history, result, audit;
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
    "settle.sql": settle, release, held_jobs;
    "status.sql": status_sample, status_walk, status_nodes;
    "testing.sql": travel;
    "transaction.sql": remove, remove_and_lease, remove_all, keep_result;
    "unreadable.sql": rehearse_release, readable, rehearse_claim, dead_letter_unreadable, park_unreadable;
    "vacuum.sql": dead_rows, xmin_holders;
    "why.sql": serving_nodes, job_position, key_uses, key_holders, waiting_classes;
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
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::store::sections::names;

    /// A name stands for one text in all files. What the macros above name is there, or they would not compile.
    #[test]
    fn each_section_is_used_and_no_name_is_given_twice() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/postgres");
        let files: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        let mut sections = BTreeSet::new();
        let mut texts = DEAD_FILTER.to_owned();
        for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "sql")) {
            let text: &'static str = std::fs::read_to_string(file).unwrap().leak();
            texts.push_str(text);
            for name in names(text) {
                assert!(sections.insert(name), "{name} is there twice, the second time in {}", file.display());
            }
        }
        let all = Statements::new("s", Keep::All);
        for name in sections {
            let is_fragment = FRAGMENTS.iter().any(|(fragment, _)| *fragment == name);
            let is_used = [':', '(', '}'].iter().any(|end| texts.contains(&format!("{{{name}{end}")));
            let is_sent = name == "primary" || all.all().any(|(known, _)| known == name);
            assert!(if is_fragment { is_used } else { is_sent }, "nothing uses {name}");
        }
    }

    /// They are made by replacing text, which must be there.
    #[test]
    fn derived_statements_are_of_other_rows() {
        let all = Statements::new("s", Keep::Off);
        let timers = &all.repair_timer_lives.sql;
        assert!(timers.contains("\"s\".timer_job") && !timers.contains("\"s\".job") && !timers.contains("lock_owner"));
        for suspects in [&all.claim_suspect.sql, &all.claim_suspect_counted.sql] {
            assert!(suspects.contains("blocked_on = (select 'alone'::text)"), "{suspects}");
            assert!(!suspects.contains("c.blocked_on is null"), "{suspects}");
        }
    }

    /// Statements that look into most tables of jobs, and why not into each.
    const NOT_IN_EACH: &[(&str, &str)] = &[
        ("cancel", "a dead letter has ended"),
        ("delete", "a job of an external worker is left alone"),
        ("schedule_lock", "a dead letter overlaps with nothing"),
        ("settle_external", "a report suspends no job"),
    ];

    /// A job that is in none of the tables is gone, and what it held is taken back: a table that is forgotten would cost living jobs their permits,
    /// keys or progress.
    #[test]
    fn what_looks_for_a_job_looks_into_each_table_of_jobs() {
        let schema = include_str!("../../../migrations/postgres/0001_schema.sql");
        let tables = schema.split("create table {schema}.").skip(1).filter_map(|rest| {
            let (name, columns) = rest.split_once(" (")?;
            let columns = columns.split("\n)").next()?;
            ["    rank ", "    max_attempts "].iter().all(|column| columns.contains(column)).then_some(name)
        });
        let tables: Vec<String> = tables.map(|name| format!("\"s\".{name} ")).collect();
        assert!(tables.len() >= 5, "{tables:?}");
        let functions = schema.split("create function {schema}.").skip(1).filter_map(|rest| {
            let (name, body) = (rest.split('(').next()?, rest.split("$;\n").next()?);
            Some((name.to_owned(), body.replace("{schema}", "\"s\"")))
        });
        let statements = Statements::new("s", Keep::All);
        let statements = statements.all().map(|(name, statement)| (name.to_owned(), statement.sql.clone()));
        let mut whole = 0;
        for (name, sql) in statements.chain(functions) {
            let text = format!("{} ", sql.replace(['\n', ')', ';', ','], " "));
            let named = tables.iter().filter(|table| text.contains(table.as_str())).count();
            whole += usize::from(named == tables.len());
            let is_meant = NOT_IN_EACH.iter().any(|(known, _)| *known == name);
            assert!(named < 4 || named == tables.len() || is_meant, "{name} looks into {named} of {tables:?}");
        }
        assert!(whole >= 10, "only {whole} look into each");
    }

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
        ("heartbeat_and_server", "the node's own row"),
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
        ("report_failing", "the node's own row"),
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
                "{name} may wait for a row that another transaction holds: see `briefly` in fragments.sql"
            );
        }
        for (name, _) in MAY_WAIT {
            assert!(waits.contains(name), "{name} waits for nothing, and is in the list");
        }
    }
}
