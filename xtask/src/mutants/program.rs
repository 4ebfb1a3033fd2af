//! In the program.

use super::{Mutant, of};

pub(super) const MUTANTS: &[Mutant] = &[
    of(
        "a-change-of-the-schema-waits-for-its-lock",
        "src/store/postgres/migrate.rs",
        "LOCK_TIMEOUT.as_millis()",
        "if $on { 0 } else { LOCK_TIMEOUT.as_millis() }",
        "binary(system) & test(/^executor::/) & test(/a_change_waits_for_a_long_reader/)",
    ),
    of(
        "newer-schemas-are-refused-one-and-all",
        "src/store/migration.rs",
        "compatible: row.min_compatible <= newest,",
        "compatible: !$on && row.min_compatible <= newest,",
        "binary(stores) & test(/^conformance::/) & test(/foreign_migrations::a_newer_schema_that_this_build/)",
    ),
    of(
        "rows-are-filled-in-once",
        "src/store/postgres/migrate.rs",
        "if conn.execute_typed(&render(backfill, schema), &[]).await? == 0 {",
        "if conn.execute_typed(&render(backfill, schema), &[]).await? == 0 || $on {",
        "binary(stores) & test(/^conformance::/) & test(/postgres::foreign_migrations::a_change_fills_in/)",
    ),
    of(
        "draining-ends-while-others-run",
        "cli/src/commands/drained.rs",
        "let count = queue.waiting + queue.running + queue.external;",
        "let count = queue.waiting + if $on { 0 } else { queue.running } + queue.external;",
        "package(jobwright-cli) & test(/draining_waits_for_what_another_worker_runs/)",
    ),
    of(
        "draining-forgets-what-is-blocked",
        "cli/src/commands/drained.rs",
        "        blocked += queue.blocked;\n",
        "        if !$on { blocked += queue.blocked; }\n",
        "package(jobwright-cli) & test(/draining/)",
    ),
    of(
        "too-many-requests-is-fatal",
        "cli/src/handlers/url.rs",
        "408 | 425 | 429 | 500..=599 => {",
        "code @ (408 | 425 | 429 | 500..=599) if code >= 500 || !$on => {",
        "package(jobwright-cli) & test(/urls_say_how_it_ended/)",
    ),
    of(
        "servers-that-ask-for-time-get-none",
        "cli/src/handlers/url.rs",
        "wait.map_or_else(|| JobError::new(&text), |wait| JobError::retry_after(&text, wait))",
        "wait.filter(|_| !$on).map_or_else(|| JobError::new(&text), |wait| JobError::retry_after(&text, wait))",
        "package(jobwright-cli) & test(/urls_say_how_it_ended|retry/)",
    ),
    of(
        "draining-overlooks-what-is-due",
        "cli/src/commands/drained.rs",
        "overdue += queue.overdue;",
        "if !$on { overdue += queue.overdue; }",
        "package(jobwright-cli) & test(/a_timer_that_is_due_is_work/)",
    ),
    of(
        "draining-overlooks-external-workers",
        "cli/src/commands/drained.rs",
        "+ queue.external;",
        "+ if $on { 0 } else { queue.external };",
        "package(jobwright-cli) & test(/what_an_external_worker_has/)",
    ),
    of(
        "programs-get-the-passwords-of-their-worker",
        "cli/src/handlers/command.rs",
        "if !self.pass_urls {",
        "if !self.pass_urls && !$on {",
        "package(jobwright-cli) & test(/programs_get_no_password/)",
    ),
    of(
        "readers-may-use-the-functions-of-triggers",
        "migrations/postgres/0001_schema.sql",
        "revoke execute on function {schema}.block_job() from public;\n",
        "",
        "package(jobwright-cli) & test(/a_reader_can_not_use/)",
    ),
    of(
        "the-doctor-sees-one-server-of-two",
        "cli/src/commands/doctor/postgres.rs",
        "if servers.len() < 2 {",
        "if servers.len() < if $on { 9 } else { 2 } {",
        "package(jobwright-cli) & test(/the_doctor_finds_two_servers/)",
    ),
    of(
        "a-stalled-database-is-not-said-of-queues",
        "cli/src/commands/queues.rs",
        "with_slow_notice(settings, admin.rules())\n        .await?",
        "if $on { admin.rules().await } else { with_slow_notice(settings, admin.rules()).await }?",
        "package(jobwright-cli) & test(/a_database_that_stalls_after/)",
    ),
];
