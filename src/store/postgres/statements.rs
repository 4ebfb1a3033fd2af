//! The catalogue of statements. Each has its text, with the schema filled in, and its parameter types, which saves a round trip to ask for
//! them.

use tokio_postgres::types::Type;

use crate::config::Keep;
use crate::store::HistoryOutcome;
use crate::store::settle::ERRORS_KEPT;

/// One statement.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(super) sql: String,
    pub(super) types: &'static [Type],
}

/// Fragments that several statements share.
const MAY_START: &str = include_str!("sql/fragment/may_start.sql");
const UNCOVERED: &str = include_str!("sql/fragment/uncovered.sql");
const COUNTED: &str = include_str!("sql/fragment/counted.sql");
const COVERS: &str = include_str!("sql/fragment/covers.sql");
const QUEUE_OPEN: &str = include_str!("sql/fragment/queue_open.sql");
const RENEWED: &str = include_str!("sql/fragment/renewed.sql");
const STATE: &str = include_str!("sql/fragment/state.sql");

/// The conditions of a [`JobFilter`](crate::store::JobFilter) on every row. Each statement applies the states (`$2`) itself.
const OWN_FILTER: &str = include_str!("sql/filter.sql");
/// The same for dead letters, with the time of death.
const DEAD_FILTER: &str = "{own_filter}\n      and ($8::timestamptz is null or dead_at >= $8)\n      and ($9::timestamptz is null or dead_at < $9)";
/// The same for jobs that are alive, which match no range of death times.
const LIVE_FILTER: &str = "{own_filter}\n      and $8::timestamptz is null\n      and $9::timestamptz is null";

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
    let sql = lines.collect::<Vec<_>>().join("\n");
    let kept = HistoryOutcome::ALL.iter().filter(|ending| keep == Keep::All || ending.is_failure());
    let sql = sql.replace("{kept}", &kept.map(|ending| format!("'{ending}'")).collect::<Vec<_>>().join(", "));
    // A fragment is inserted within a line, where a comment would hide what follows.
    let parts = [MAY_START, UNCOVERED, COUNTED, RENEWED, STATE, COVERS, QUEUE_OPEN].map(without_comments);
    let [may_start, uncovered, counted, renewed, state, covers, queue_open] = parts;
    let mut sql = sql
        .replace("{may_start}", &may_start)
        .replace("{uncovered}", &uncovered)
        .replace("{counted}", &counted)
        .replace("{renewed}", &renewed)
        .replace("{state}", &state);
    for row in ["c", "m", "j", "b"] {
        sql = sql.replace(&format!("{{covers:{row}}}"), &covers.replace("{row}", row));
    }
    for queue in ["$1", "$2", "q.name"] {
        sql = sql.replace(&format!("{{queue_open:{queue}}}"), &queue_open.replace("{queue}", queue));
    }
    sql.replace("{dead_filter}", DEAD_FILTER)
        .replace("{filter}", LIVE_FILTER)
        .replace("{own_filter}", OWN_FILTER.trim_end())
        .replace("{schema}", &format!("\"{schema}\""))
        .replace("{channel}", &channel(schema))
        .replace("{errors_kept}", &ERRORS_KEPT.to_string())
}

/// Adds the statement's name and strips comments. The name comes first because the server's views and logs may cut the text off. Without
/// comments the text is shorter to send and to look up on each call.
fn named(name: &str, sql: &str) -> String {
    format!("/* jobwright {name} */\n{}", without_comments(sql))
}

fn without_comments(sql: &str) -> String {
    sql.lines().filter(|line| !line.trim_start().starts_with("--")).collect::<Vec<_>>().join("\n")
}

/// Returns the notification channel of a schema.
pub(super) fn channel(schema: &str) -> String {
    format!("{schema}_wake")
}

macro_rules! statements {
    ($($name:ident: [$($type:ident),*],)*) => {
        /// All statements, for one schema.
        #[derive(Debug)]
        pub(crate) struct Statements {
            $(pub(super) $name: Statement,)*
        }

        impl Statements {
            pub(super) fn new(schema: &str, keep: Keep) -> Self {
                Self {
                    $($name: Statement {
                        sql: named(
                            stringify!($name),
                            &render_keeping(include_str!(concat!("sql/", stringify!($name), ".sql")), schema, keep),
                        ),
                        types: &[$(Type::$type),*],
                    },)*
                }
            }

            /// Iterates over all statements and their names.
            pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, &Statement)> {
                [$((stringify!($name), &self.$name)),*].into_iter()
            }
        }
    };
}

statements! {
    insert_one: [UUID, TEXT, TEXT, INT2, INT4, JSONB, BYTEA, TEXT, JSONB],
    insert_one_named: [UUID, TEXT, TEXT, INT2, INT4, JSONB, BYTEA, TEXT, JSONB],
    insert_one_hidden: [UUID, TEXT, TEXT, INT2, INT4, JSONB, BYTEA, TEXT, JSONB, INT8],
    insert_alike: [UUID_ARRAY, TEXT_ARRAY, TEXT, TEXT, INT2, INT4],
    insert_ready: [UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT2_ARRAY, INT4_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, TEXT_ARRAY, JSONB_ARRAY],
    insert_hidden: [UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT2_ARRAY, INT4_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, TEXT_ARRAY, JSONB_ARRAY,
                  INT8_ARRAY],
    insert_any: [UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT2_ARRAY, INT4_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, TEXT_ARRAY, JSONB_ARRAY,
                 INT8_ARRAY, TIMESTAMPTZ_ARRAY, BOOL_ARRAY, INT8_ARRAY, JSONB_ARRAY],
    insert_owned: [UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT2_ARRAY, INT4_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, TEXT_ARRAY, JSONB_ARRAY,
                   INT8_ARRAY, TIMESTAMPTZ_ARRAY, BOOL_ARRAY, INT8, BOOL_ARRAY, INT8_ARRAY, JSONB_ARRAY, INT4],
    insert_options: [UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT2_ARRAY, INT4_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, TEXT_ARRAY, JSONB_ARRAY,
                   TEXT_ARRAY],
    insert_alike_options: [UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT, TEXT, INT2, INT4],
    known_ids: [UUID_ARRAY],
    lock_ids: [UUID_ARRAY],
    take_unique: [BYTEA_ARRAY, UUID_ARRAY, TEXT_ARRAY, INT8_ARRAY, TEXT_ARRAY],
    full_queues: [TEXT_ARRAY, INT8_ARRAY],
    history: [UUID, TEXT, TEXT, TEXT_ARRAY, TEXT, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, INT8, INT8],
    prune_history: [INT8, INT8],
    prune_audit: [INT8, INT8],
    prune_dead_letters: [INT8, INT8],
    keep_result: [UUID, TEXT, JSONB, INT8],
    result: [UUID],
    prune_results: [INT8],
    record_progress: [INT8, UUID, INT8, INT2, TEXT, JSONB],
    progress: [UUID],
    prune_progress: [INT8],
    find: [UUID],
    claim: [INT8, TEXT, INT2_ARRAY, INT8_ARRAY, INT2_ARRAY, TEXT_ARRAY, INT8, BOOL, TEXT, INT8, INT8, INT8, INT8_ARRAY, INT2, INT4],
    claim_counted: [INT8, TEXT, INT2_ARRAY, INT8_ARRAY, INT2_ARRAY, INT8_ARRAY, TEXT_ARRAY, INT8, INT4, INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY,
                    TEXT_ARRAY, INT4_ARRAY, BOOL, BOOL, BOOL],
    lock_limits: [INT8_ARRAY],
    drop_usage: [],
    claim_delivered: [INT8, UUID_ARRAY, INT8_ARRAY, TEXT_ARRAY, INT4],
    waiting: [TEXT, INT2_ARRAY, INT8_ARRAY, INT2_ARRAY, INT8_ARRAY, TEXT_ARRAY, BOOL, INT8],
    readable: [UUID_ARRAY, INT8],
    delivered: [UUID_ARRAY, INT8_ARRAY],
    dead_letter_unreadable: [UUID_ARRAY, INT8_ARRAY, TEXT_ARRAY, INT8, INT8_ARRAY],
    park_unreadable: [UUID, INT8, INT8],
    unhide: [UUID_ARRAY],
    complete: [INT8, UUID_ARRAY, INT8_ARRAY],
    complete_at: [INT8, UUID_ARRAY, INT8_ARRAY, TID_ARRAY],
    complete_holding: [INT8, UUID_ARRAY, INT8_ARRAY, TID_ARRAY],
    complete_keyed: [INT8, UUID_ARRAY, INT8_ARRAY, TID_ARRAY, BOOL],
    remove_and_lease: [INT8, UUID, INT8, TEXT, UUID, INT4],
    complete_and_claim_next: [INT8, UUID_ARRAY, INT8_ARRAY, TID_ARRAY, TEXT_ARRAY, INT4, TEXT_ARRAY, UUID_ARRAY, UUID_ARRAY, TEXT_ARRAY, INT4_ARRAY,
              INT2_ARRAY, INT8_ARRAY],
    remove: [INT8, UUID, INT8],
    remove_all: [INT8, UUID_ARRAY, INT8_ARRAY],
    settle: [INT8, UUID_ARRAY, INT8_ARRAY, TEXT_ARRAY, INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY],
    release: [INT8, UUID_ARRAY, INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY],
    put_off: [INT8, UUID, INT8, INT8],
    promote: [INT8],
    expire_jobs: [INT8, TEXT],
    travel: [INT8],
    register_node: [TEXT, TEXT, INT8, INT8, INT8],
    heartbeat: [INT8],
    node_heartbeats: [],
    declare_dead: [INT8_ARRAY, INT8_ARRAY],
    idle_nodes: [],
    idle_of: [INT8_ARRAY],
    wait_for_node: [INT8],
    job_pages: [],
    owners: [INT8_ARRAY, TID, TID],
    release_lost: [INT8, INT8, TID, TID],
    release_unknown: [INT8, UUID_ARRAY, INT8_ARRAY, INT4, TID, TID],
    release_claimed: [INT8, INT4, UUID_ARRAY],
    handlers_ended: [INT8, UUID_ARRAY, INT8_ARRAY],
    unknown_terminating: [INT8, UUID_ARRAY, INT8_ARRAY, INT4],
    claimed_terminating: [INT8, INT4, UUID_ARRAY],
    lost_terminating: [],
    forget_nodes: [INT8_ARRAY],
    retire_node: [INT8],
    server: [],
    report_broker: [INT8, TEXT],
    takes_writes: [],
    hand_out: [TEXT, INT8, INT8, INT8],
    report_key: [],
    take_back: [UUID_ARRAY, INT8_ARRAY],
    complete_external: [UUID_ARRAY, INT8_ARRAY, UUID_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, TEXT_ARRAY, TEXT, INT4],
    settle_external: [UUID_ARRAY, INT8_ARRAY, TEXT_ARRAY, INT8_ARRAY, TEXT_ARRAY, TEXT_ARRAY],
    extend_external: [UUID_ARRAY, INT8_ARRAY, INT8_ARRAY],
    external_late: [],
    expire_external: [INT8, TEXT, TEXT],
    receive: [UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT2_ARRAY, INT4_ARRAY, TEXT_ARRAY, BYTEA_ARRAY, TEXT_ARRAY, JSONB_ARRAY,
              INT8_ARRAY, TIMESTAMPTZ_ARRAY, BOOL_ARRAY, INT8_ARRAY, BYTEA_ARRAY, JSONB_ARRAY],
    submission_digests: [UUID_ARRAY],
    remember_submissions: [UUID_ARRAY, BYTEA_ARRAY],
    prune_submissions: [INT8, INT8],
    maintenance_due: [INT8],
    repair_unblocks: [],
    repair_rates: [],
    repair_leases: [INT8],
    repair_lives: [INT8],
    repair_timer_lives: [INT8],
    repair_retries: [INT8],
    repair_uniques: [INT8],
    clock_skew: [INT8],
    admit_check: [],
    admit_lock: [],
    admit_candidates: [INT8, TEXT_ARRAY, TEXT_ARRAY, INT8, INT8, BOOL],
    admit_usage: [TEXT_ARRAY, INT8_ARRAY, UUID_ARRAY],
    admit_apply: [UUID_ARRAY, UUID_ARRAY, UUID_ARRAY, TEXT_ARRAY, UUID_ARRAY, TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, UUID_ARRAY,
                  TEXT_ARRAY, TEXT_ARRAY, TEXT_ARRAY, INT4_ARRAY, INT8_ARRAY, TEXT_ARRAY, TIMESTAMPTZ_ARRAY, INT4_ARRAY],
    aging_queues: [],
    age: [TEXT, INT8, INT8, TEXT],
    prune_rate_log: [INT8],
    permit_faults: [],
    overdue_unblocks: [],
    rules: [],
    put_rule: [TEXT, TEXT, BOOL, INT4, INT4, INT8, INT8, INT8, JSONB, BOOL, TEXT, TEXT, TEXT, JSONB],
    live_nodes: [],
    permit_running: [TEXT, TEXT, TEXT],
    notify: [TEXT, TEXT_ARRAY],
    status_queues: [],
    status_nodes: [],
    list: [UUID_ARRAY, TEXT_ARRAY, TEXT, TEXT, TEXT, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, JSONB, INT8, INT8],
    show: [UUID],
    show_bare: [UUID],
    count: [UUID_ARRAY, TEXT_ARRAY, TEXT, TEXT, TEXT, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, JSONB, TEXT_ARRAY],
    count_some: [UUID_ARRAY, TEXT_ARRAY, TEXT, TEXT, TEXT, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, JSONB, TEXT_ARRAY, INT8],
    retry: [UUID_ARRAY, TEXT_ARRAY, TEXT, TEXT, TEXT, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, JSONB],
    retry_spread: [UUID_ARRAY, TEXT_ARRAY, TEXT, TEXT, TEXT, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, JSONB, INT8, INT8, INT8],
    dead_letter_groups: [UUID_ARRAY, TEXT_ARRAY, TEXT, TEXT, TEXT, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, JSONB, INT8],
    choose: [UUID_ARRAY, TEXT_ARRAY, TEXT, TEXT, TEXT, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, JSONB, TEXT_ARRAY, INT8],
    list_ids: [UUID_ARRAY, TEXT_ARRAY, TEXT, TEXT, TEXT, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, JSONB, INT8, INT8],
    suspend: [UUID_ARRAY, TEXT_ARRAY, TEXT, TEXT, TEXT, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, JSONB],
    resume: [UUID_ARRAY, TEXT_ARRAY, TEXT, TEXT, TEXT, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, JSONB],
    run_now: [UUID_ARRAY, TEXT_ARRAY, TEXT, TEXT, TEXT, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, JSONB],
    change_idle: [UUID_ARRAY, TEXT_ARRAY, TEXT, TEXT, TEXT, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, JSONB, INT2, TIMESTAMPTZ, INT8, TEXT, INT4],
    change_waiting: [UUID_ARRAY, TEXT_ARRAY, TEXT, TEXT, TEXT, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, JSONB, INT2, INT4],
    stale_claims: [INT8, UUID_ARRAY, INT8_ARRAY],
    evict: [INT8],
    audit: [INT8, TEXT, TEXT, INT8],
    audit_write: [TEXT, TEXT, JSONB, JSONB],
    audit_count: [INT8, JSONB],
    cancel: [UUID_ARRAY, TEXT_ARRAY, TEXT, TEXT, TEXT, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, JSONB],
    delete: [UUID_ARRAY, TEXT_ARRAY, TEXT, TEXT, TEXT, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, TIMESTAMPTZ, JSONB],
    schedule_next: [],
    schedule_named: [TEXT_ARRAY],
    schedule_page: [TEXT, INT8],
    schedule_due: [INT8],
    schedule_insert: [TEXT, TEXT, TEXT, TEXT, TEXT, TIMESTAMPTZ, INT8, TIMESTAMPTZ, BOOL, TIMESTAMPTZ, TEXT, TEXT, INT2, INT4, JSONB,
                      BYTEA, TEXT, JSONB, JSONB],
    schedule_update: [TEXT, TEXT, TEXT, TEXT, TEXT, TIMESTAMPTZ, INT8, TIMESTAMPTZ, BOOL, TIMESTAMPTZ, TEXT, TEXT, INT2, INT4, JSONB,
                      BYTEA, TEXT, JSONB, JSONB, INT8],
    schedule_delete: [TEXT_ARRAY],
    schedule_lock: [TEXT_ARRAY, INT8_ARRAY, UUID_ARRAY, TIMESTAMPTZ_ARRAY],
    schedule_fired: [TEXT_ARRAY, INT8_ARRAY, TIMESTAMPTZ_ARRAY, TIMESTAMPTZ_ARRAY, UUID_ARRAY, INT8_ARRAY],
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
}
