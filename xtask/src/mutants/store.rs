//! In the stores' own code, and in the statements of SQLite.

use super::Mutant;

const fn of(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    plant: &'static str,
    tests: &'static str,
) -> Mutant {
    Mutant { name, file, find, plant, tests }
}

pub(super) const MUTANTS: &[Mutant] = &[
    of(
        "embedded-complete-with-any-token",
        "src/store/sqlite/sql/complete.sql",
        " and version = :version",
        " and :version is not null",
        "binary(conformance) & test(/^sqlite::(fencing|transactions)::/)",
    ),
    of(
        "embedded-timers-two-seconds-early",
        "src/store/sqlite/sql/promote_copy.sql",
        "where due_at <= :now\n",
        "where due_at <= :now + 2000000\n",
        "binary(conformance) & test(/^sqlite::timers::/)",
    ),
    of(
        "embedded-claims-out-of-order",
        "src/store/sqlite/sql/claim.sql",
        "order by rank, seq\n",
        "order by rank, seq desc\n",
        "binary(conformance) & test(/^sqlite::claiming::/)",
    ),
    of(
        "embedded-living-lose-their-jobs",
        "src/store/sqlite/sql/lost_rows.sql",
        "(node.id is null or node.dead_at is not null)",
        "(node.id is null or true)",
        "binary(conformance) & test(/^sqlite::lost::/)",
    ),
    of(
        "embedded-what-is-put-off-is-free-at-once",
        "src/store/sqlite/sql/put_off.sql",
        "held_until = :until",
        "held_until = case when :until then null end",
        "binary(conformance) & test(/^sqlite::recovery::/)",
    ),
    of(
        "embedded-one-attempt-too-many",
        "src/store/sqlite/settle.rs",
        "Verdict::Retry(_) if row.attempt >= row.max_attempts",
        "Verdict::Retry(_) if row.attempt >= row.max_attempts + u32::from($on)",
        "binary(conformance) & test(/^sqlite::settling::/)",
    ),
    of(
        "embedded-looks-give-back-what-is-claimed-meanwhile",
        "src/store/sqlite/sql/release_unknown.sql",
        "and (:before is null or ",
        "and (:before is null or true or ",
        "binary(conformance) & test(/^sqlite::recovery::/)",
    ),
];
