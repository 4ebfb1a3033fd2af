//! Every statement of the engine runs with the rights of those who run it. The doctor finds a role that has them in order.

use std::fmt::Write as _;

use jobwright::Keep;
use jobwright::internal::engine::testing::postgres_statements;
use serde_json::Value;

use crate::common::as_owner;
use crate::grants::Roles;

/// What senders run.
const SENT: &str = "insert_one insert_one_named insert_one_hidden insert_alike insert_alike_options insert_options insert_ready insert_hidden \
                    insert_any known_ids lock_ids take_unique full_queues rules find notify place send_by_sql";
/// What people and programs run that look.
const LOOKED: &str = "status_sample status_walk status_nodes list list_ids show show_bare job_state count count_some dead_letter_groups history audit result progress rules \
                      schedule_named schedule_page schedule_due clock_skew sampled_whole permit_faults overdue_unblocks overdue_work unreadable_jobs installation system_identifier serving_nodes job_position \
                      key_uses key_holders waiting_classes waiting_kinds dead_rows xmin_holders";
/// What operators run besides.
const CHANGED: &str = "audit_write audit_count rules put_rule drop_usage live_nodes permit_running lock_limits admit_lock retry retry_spread choose \
                       suspend resume run_now change_idle change_waiting evict cancel delete schedule_insert schedule_update schedule_delete notify \
                       idle_of release_lost owners job_pages lost_terminating forget_nodes";
/// What executors do not run: they run everything else.
const NOT_BY_EXECUTORS: &str = "status_sample status_walk status_nodes list list_ids show show_bare job_state count count_some dead_letter_groups audit clock_skew \
                                sampled_whole permit_faults overdue_unblocks overdue_work unreadable_jobs audit_write audit_count put_rule choose suspend resume run_now change_idle \
                                cancel delete serving_nodes job_position key_uses key_holders waiting_classes waiting_kinds";
/// The test kit's, and those of `adopt`.
const BY_OWNERS: &str = "travel adopt new_report_key";

/// The server checks the rights on tables and functions before it explains a statement. Those on what functions do are checked by running them, as
/// `roles_do_their_work_with_what_they_are_granted` does.
#[test]
fn each_statement_has_the_rights_of_who_runs_it() {
    let Some(roles) = Roles::create() else { return };
    let statements = postgres_statements(roles.sandbox.schema().unwrap(), Keep::All);
    let among = |list: &str, name: &str| list.split_whitespace().any(|known| known == name);
    for list in [SENT, LOOKED, CHANGED, NOT_BY_EXECUTORS, BY_OWNERS] {
        for name in list.split_whitespace() {
            assert!(statements.iter().any(|(known, ..)| known == name), "there is no statement {name}");
        }
    }
    let mut denied = String::new();
    for (name, sql, types) in &statements {
        let by = [
            ("sender", among(SENT, name)),
            ("monitor", among(LOOKED, name)),
            ("operator", among(LOOKED, name) || among(CHANGED, name)),
            ("executor", !among(NOT_BY_EXECUTORS, name) && !among(BY_OWNERS, name)),
        ];
        let (types, nulls) = match types.len() {
            0 => (String::new(), String::new()),
            count => (format!("({})", types.join(", ")), format!("({})", vec!["null"; count].join(", "))),
        };
        for (role, _) in by.into_iter().filter(|(_, runs)| *runs) {
            // With a plan for any values, nothing is left out because a parameter is null.
            let explain = format!(
                "set role \"{}\"; set plan_cache_mode = force_generic_plan; prepare s {types} as {sql}; explain execute s {nulls}",
                roles.name(role)
            );
            if let Err(why) = as_owner(&explain) {
                let why = why.split("message: ").nth(1).unwrap_or(&why);
                let _ = writeln!(denied, "{role} may not run {name}: {}", why.split(", detail").next().unwrap());
            }
        }
    }
    assert!(denied.is_empty(), "{denied}");
}

/// A monitoring may raise an alarm on each warning.
#[test]
fn the_doctor_finds_each_role_in_order() {
    let Some(roles) = Roles::create() else { return };
    roles.sandbox.configure("[handlers.ends]\ncommand = [\"true\"]\n");
    let judged = |role: &str, purpose: &str| {
        let done = roles.command(role, &["doctor", "--as", purpose, "--output", "json"]).output().unwrap();
        let findings: Vec<Value> = serde_json::from_slice(&done.stdout).unwrap();
        findings.into_iter().filter(|finding| finding["state"] != "ok").collect::<Vec<_>>()
    };
    for role in ["operator", "monitor"] {
        let blind = judged(role, role);
        assert!(
            blind.len() == 1 && blind[0]["do"].as_str().unwrap().contains("pg_read_all_stats"),
            "{role} does not see what keeps dead rows, and it is to say so: {blind:?}"
        );
        as_owner(&format!("grant pg_read_all_stats to \"{}\"", roles.name(role))).unwrap();
    }
    for role in ["sender", "executor", "operator", "monitor"] {
        let found = judged(role, role);
        // The tests of others may leave transactions open for long.
        let found: Vec<_> = found.iter().filter(|finding| finding["check"] != "oldest transaction").collect();
        assert!(found.is_empty(), "{role}: {found:?}");
    }
    // One that is judged by what another is for lacks something.
    for (role, purpose) in
        [("sender", "executor"), ("monitor", "operator"), ("executor", "monitor"), ("operator", "sender")]
    {
        let found = judged(role, purpose);
        let lacks = found.iter().find(|finding| finding["check"] == "database rights");
        assert!(lacks.is_some_and(|lacks| lacks["state"] == "fail"), "{role} as {purpose}: {found:?}");
    }
}

/// A function that a role may not execute is named, as is a column that it may not read.
#[test]
fn the_doctor_names_each_right_that_is_missing() {
    let Some(roles) = Roles::create() else { return };
    let schema = roles.sandbox.schema().unwrap();
    for (role, revoked, named) in [
        ("executor", "execute on function SCHEMA.hold_node", "execute on function hold_node"),
        ("executor", "delete on SCHEMA.node", "delete on node"),
        ("sender", "select (seq) on SCHEMA.job", "select (seq) on job"),
        ("sender", "usage on sequence SCHEMA.job_seq", "usage on sequence job_seq"),
        ("operator", "insert on SCHEMA.permit", "insert on permit"),
        ("monitor", "select on SCHEMA.jobs", "select on jobs"),
    ] {
        let revoke = format!("revoke {} from \"{}\"", revoked.replace("SCHEMA", schema), roles.name(role));
        as_owner(&revoke).unwrap();
        let done = roles.command(role, &["doctor", "--as", role]).output().unwrap();
        let said = String::from_utf8(done.stdout).unwrap();
        assert!(said.contains(named), "{revoke}: {said}");
    }
}
