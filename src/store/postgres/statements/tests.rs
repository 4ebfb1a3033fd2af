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

/// A worker by SQL gets the jobs that an external worker over the broker would get: what may start is the same text in both.
#[test]
fn what_may_be_taken_by_sql_is_what_is_handed_out() {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let hand_out = words(&Statements::new("s", Keep::Off).hand_out.sql).replace("$1", "take.queue");
    let conditions =
        hand_out.split_once("c.blocked_on is null and ").unwrap().1.split_once(" order by c.rank, c.seq").unwrap().0;
    let functions = include_str!("../../../../migrations/postgres/0001_work_by_sql.sql");
    let take = words(&functions.replace("{schema}", "\"s\""));
    assert!(take.contains(conditions), "`take` lacks: {conditions}");
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
    let schema = include_str!("../../../../migrations/postgres/0001_schema.sql");
    let tables = schema.split("create table {schema}.").skip(1).filter_map(|rest| {
        let (name, columns) = rest.split_once(" (")?;
        let columns = columns.split("\n)").next()?;
        ["    rank ", "    max_attempts "].iter().all(|column| columns.contains(column)).then_some(name)
    });
    let tables: Vec<String> = tables.map(|name| format!("\"s\".{name} ")).collect();
    assert!(tables.len() >= 5, "{tables:?}");
    let functions = schema.split("create function {schema}.").skip(1).filter_map(|rest| {
        let (name, body) = (rest.split('(').next()?, rest.split("$;\n").next()?);
        Some((name.to_owned(), body.replace("{schema}", "\"s\"").into()))
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
    let waits: Vec<&str> = all.all().filter(|(_, s)| writes(&s.sql) && !passes(&s.sql)).map(|(name, _)| name).collect();
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
