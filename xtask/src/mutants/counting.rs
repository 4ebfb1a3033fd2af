//! In claims that count limits by themselves.

use super::{Mutant, of};

pub(super) const MUTANTS: &[Mutant] = &[
    of(
        "a-late-claim-counts",
        "migrations/postgres/0020_usage.sql",
        "            if used.late then\n",
        "            if false then\n",
        "test(=postgres::counting::a_late_claim_takes_nothing)",
    ),
    of(
        "claims-count-without-a-lock",
        "migrations/postgres/0020_usage.sql",
        "        perform pg_advisory_xact_lock(lock);\n",
        "        null;\n",
        "test(=postgres::counting::many_claims_at_once)",
    ),
    of(
        "slots-are-not-counted",
        "migrations/postgres/0020_usage.sql",
        " - (select count(*) from {schema}.slot s where s.key = asked.key);",
        ";",
        "test(=postgres::counting::rules_that_come_and_go)",
    ),
    of(
        "whoever-comes-first-keeps-all",
        "migrations/postgres/0020_usage.sql",
        "            if used.wanted then\n",
        "            if false then\n",
        "test(=postgres::counting::nobody_keeps_all)",
    ),
    of(
        "who-waits-at-the-gate-gets-nothing",
        "migrations/postgres/0020_usage.sql",
        "                gated := free / 2 + (free % 2) * (abs(this) % 2);\n",
        "                gated := 0;\n",
        "test(=postgres::counting::others_wait_at_the_gate)",
    ),
    of(
        "what-ran-before-a-limit-counts-twice",
        "migrations/postgres/0020_usage.sql",
        "                asked.mine := 0;\n",
        "",
        "test(=postgres::counting::rules_that_come_and_go)",
    ),
    of(
        "starts-are-not-written-down",
        "src/store/postgres/sql/claim_counted.sql",
        "from quota cross join room cross join logged",
        "from quota cross join room",
        "test(=postgres::counting::a_rate_counts_what_starts)",
    ),
    of(
        "other-limits-are-not-seen",
        "src/store/postgres/sql/claim_counted.sql",
        "              and {uncovered}\n",
        "",
        "test(=postgres::counting::only_what_it_counts)",
    ),
    of(
        "rounds-do-not-see-what-claims-count",
        "src/store/postgres/sql/admit_usage.sql",
        "where key = any ($1::text[]) group by key) taken",
        "where false and key = any ($1::text[]) group by key) taken",
        "test(=postgres::counting::so_many_over_all_nodes)",
    ),
    of(
        "what-dead-nodes-ran-is-free-at-once",
        "src/store/postgres/sql/lost_endings.sql",
        "      and (select not exists (select from {schema}.job j where j.lock_owner = u.node))\n",
        "",
        "test(=postgres::counting::what_the_dead_ran_counts_until_it_is_released)",
    ),
    of(
        "what-runs-is-adopted-again",
        "src/store/postgres/sql/adopt.sql",
        "      and (c.admitted or not exists",
        "      and (true or not exists",
        "test(=postgres::counting::rules_that_come_and_go)",
    ),
    of(
        "what-ends-is-not-told",
        "src/executor/limits.rs",
        "            counter.fetch_sub(1, Ordering::AcqRel);\n",
        "            if !$on { counter.fetch_sub(1, Ordering::AcqRel); }\n",
        "binary(executor) & test(=counting::a_limit_changes_while_everything_runs)",
    ),
];
