//! In the stores' own code, and in the statements of SQLite.

use super::{Mutant, of};

pub(super) const MUTANTS: &[Mutant] = &[
    of(
        "embedded-complete-with-any-token",
        "src/store/sqlite/sql/complete.sql",
        " and version = :version",
        " and :version is not null",
        "binary(stores) & test(/^conformance::sqlite::(fencing|transactions)::/)",
    ),
    of(
        "embedded-timers-two-seconds-early",
        "src/store/sqlite/sql/promote_copy.sql",
        "where due_at <= :now\n",
        "where due_at <= :now + 2000000\n",
        "binary(stores) & test(/^conformance::/) & test(/exactly_those_that_are_due/)",
    ),
    of(
        "embedded-claims-out-of-order",
        "src/store/sqlite/sql/claim.sql",
        "order by rank, seq\n",
        "order by rank, seq desc\n",
        "binary(stores) & test(/^conformance::sqlite::claiming::/)",
    ),
    of(
        "embedded-living-lose-their-jobs",
        "src/store/sqlite/sql/lost_rows.sql",
        "(node.id is null or node.dead_at is not null)",
        "(node.id is null or true)",
        "binary(stores) & test(/^conformance::sqlite::release_lost::/)",
    ),
    of(
        "embedded-what-is-put-off-is-free-at-once",
        "src/store/sqlite/sql/put_off.sql",
        "visible_at = :until",
        "visible_at = case when :until then null end",
        "binary(stores) & test(/^conformance::sqlite::release_unknown::/)",
    ),
    of(
        "embedded-one-attempt-too-many",
        "src/store/sqlite/settle.rs",
        "Verdict::Retry(_) if row.attempt >= row.max_attempts",
        "Verdict::Retry(_) if row.attempt >= row.max_attempts + u32::from($on)",
        "binary(stores) & test(/^conformance::sqlite::settling::/)",
    ),
    of(
        "embedded-looks-give-back-what-is-claimed-meanwhile",
        "src/store/sqlite/sql/release_unknown.sql",
        "and (:before is null or ",
        "and (:before is null or true or ",
        "binary(stores) & test(/^conformance::sqlite::release_unknown::/)",
    ),
    of(
        "a-limit-waits-for-a-silent-process-for-ever",
        "src/store/postgres/rules.rs",
        "if Instant::now() >= deadline {",
        "if Instant::now() >= deadline && !$on {",
        "binary(stores) & test(/^conformance::postgres::claims_in_flight::a_limit_waits/)",
    ),
    of(
        "embedded-claims-by-a-dead-node",
        "src/store/sqlite/nodes.rs",
        "if is_alive(connection, node)? {\n        return Ok(());",
        "if is_alive(connection, node)? || $on {\n        return Ok(());",
        "binary(stores) & test(/^conformance::sqlite::concurrency::claims_meet/)",
    ),
    of(
        "embedded-report-of-any-hand-out",
        "src/store/sqlite/sql/external_row.sql",
        "and version = :version",
        "and :version is not null",
        "binary(stores) & test(/^model_replay::sqlite::external::/)",
    ),
    of(
        "embedded-handlers-of-dead-nodes-hold-their-group",
        "src/store/sqlite/sql/lost_terminating.sql",
        "where node is not null and",
        "where false and",
        "binary(stores) & test(/^model_replay::sqlite::groups::/)",
    ),
    of(
        "embedded-ids-of-waiting-jobs-are-free",
        "src/store/sqlite/sql/id_exists.sql",
        "select exists (select 1 from jobwright_job where id = :id)",
        "select exists (select 1 from jobwright_job where id = :id and false)",
        "binary(stores) & test(/^model_replay::sqlite::identity::/)",
    ),
    of(
        "embedded-looks-compare-jobs",
        "src/store/sqlite/sql/release_unknown.sql",
        "(id, version) not in ({known})",
        "id not in (select substr(:ids, fence.key * 16 + 1, 16) from json_each(:versions) as fence)",
        "binary(stores) & test(/^conformance::sqlite::release_unknown::/)",
    ),
];
