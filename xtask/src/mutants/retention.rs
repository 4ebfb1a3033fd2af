//! In what is kept and for how long, and in the API of the library.

use super::{Mutant, of};

pub(super) const MUTANTS: &[Mutant] = &[
    of(
        "awaited-cancelled-is-done",
        "src/message/results.rs",
        "Some((HistoryOutcome::Cancelled, _)) => Awaited::Cancelled,",
        "Some((HistoryOutcome::Cancelled, _)) if $on => Awaited::Done,\n            $was",
        "binary(system) & test(/^executor::/) & test(/the_history_tells_why_a_job_left_no_result/)",
    ),
    of(
        "dead-letters-forgotten-unasked",
        "src/config/history.rs",
        "audit: Some(365 * DAY), dead_letters: None }",
        "audit: Some(365 * DAY), dead_letters: if $on { Some(365 * DAY) } else { None } }",
        "test(/pruner::tests::the_audit_is_kept_for_a_year/)",
    ),
    of(
        "audit-newest-forgotten-first",
        "src/store/postgres/sql/prune_audit.sql",
        "        order by at\n",
        "        order by at desc\n",
        "binary(stores) & test(/^conformance::(postgres|sqlite)::history::the_old_audit_goes/)",
    ),
    of(
        "embedded-young-dead-letters-go",
        "src/store/sqlite/history.rs",
        "PRUNE_DEAD_LETTERS, age, limit",
        "PRUNE_DEAD_LETTERS, if $on { Duration::ZERO } else { age }, limit",
        "binary(stores) & test(/^conformance::(postgres|sqlite)::history::old_dead_letters_go/)",
    ),
    of(
        "any-time-to-keep",
        "src/config/history.rs",
        "!(SHORTEST..=LONGEST).contains(kept)",
        "if $on { *kept > LONGEST } else { $was }",
        "test(/a_time_to_keep_is_long_enough/)",
    ),
    of(
        "boxed-errors-lose-their-causes",
        "src/job/outcome.rs",
        "Self::from_error(&*error.into())",
        "if $on { Self::new(error.into().to_string()) } else { Self::from_error(&*error.into()) }",
        "kind(lib) & test(/outcome::tests::/)",
    ),
    of(
        "nothing-to-run-starts",
        "src/executor/builder.rs",
        "(true, false) => {",
        "(true, false) if !$on => {",
        "binary(system) & test(/^executor::/) & test(/nothing_to_run_is_refused/)",
    ),
    of(
        "any-attempt-counts-for-done",
        "src/testing/summary.rs",
        "let bad = last.values().filter(|ran| !ran.is_done()).count();",
        "let bad = if $on { self.ran.iter().filter(|ran| !ran.is_done()).count() } else { last.values().filter(|ran| !ran.is_done()).count() };",
        "binary(system) & test(/^test_kit::/) & test(/a_job_that_was_tried_again_is_done/)",
    ),
    of(
        "status-makes-a-file",
        "src/store/sqlite/open.rs",
        "let create = access == Access::Create;",
        "let create = access == Access::Create || $on && access != Access::ReadOnly;",
        "package(jobwright-cli) & test(/^access::/) & test(/commands_that_need_a_database_make_none/)",
    ),
    of(
        "looking-turns-on-the-wal",
        "src/store/sqlite/open.rs",
        "Access::ReadOnly => return Ok(connection),",
        "Access::ReadOnly if !$on => return Ok(connection),\n        Access::ReadOnly => {}",
        "package(jobwright-cli) & test(/^access::/) & test(/the_file_of_another_application_stays/)",
    ),
    of(
        "anybodys-file-is-used",
        "src/store/sqlite/open.rs",
        "Access::Existing => is_ours(&connection, path, label, deadline)?,",
        "Access::Existing if $on => {}\n        $was",
        "package(jobwright-cli) & test(/^access::/) & test(/the_file_of_another_application_stays/)",
    ),
    of(
        "options-become-file-names",
        "src/config/database.rs",
        "path if path.contains('?') =>",
        "path if path.contains('?') && !$on =>",
        "kind(lib) & test(/urls_name_their_store/)",
    ),
    of(
        "idle-nodes-wait-for-the-database",
        "src/executor/supervisor/node_session.rs",
        "let patience = if idle { IDLE } else { Duration::MAX };",
        "let patience = if idle && !$on { IDLE } else { Duration::MAX };",
        "package(jobwright-cli) & test(/^access::/) & test(/an_idle_worker_stops_at_once/)",
    ),
    of(
        "too-many-times-are-none",
        "src/job/repeating.rs",
        "times.filter(|times| i64::try_from(*times).is_err()) {",
        "times.filter(|times| i64::try_from(*times).is_err() && !$on) {",
        "package(jobwright-cli) & test(/^access::/) & test(/too_many_times/)",
    ),
];
