//! In how unique keys are taken and given back on PostgreSQL.

use super::{Mutant, of};

pub(super) const MUTANTS: &[Mutant] = &[
    of(
        "the-end-of-a-job-frees-its-key-before-its-period",
        "migrations/postgres/0001_schema.sql",
        "job_id = old.id and hold <> 'period'",
        "job_id = old.id",
        "test(=conformance::postgres::unique_key_release::a_period_goes_on)",
    ),
    of(
        "a-batch-frees-keys-before-their-period",
        "src/store/postgres/sql/complete_keyed.sql",
        "job_id = d.id and hold <> 'period'",
        "job_id = d.id",
        "test(=conformance::postgres::unique_key_release::a_period_goes_on)",
    ),
    of(
        "keyed-jobs-are-completed-with-any-token",
        "src/store/postgres/sql/complete_keyed.sql",
        "      and ((j.id, j.version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is true\n",
        "",
        "test(=conformance::postgres::unique_key_release::keys_of_jobs_that_a_node_did_not_end_stay)",
    ),
    of(
        "keyed-jobs-are-completed-by-any-owner",
        "src/store/postgres/sql/complete_keyed.sql",
        "      and j.lock_owner = :node\n",
        "",
        "test(=conformance::postgres::unique_key_release::keys_of_jobs_that_a_node_did_not_end_stay)",
    ),
    of(
        "a-batch-frees-the-key-that-another-has-by-now",
        "src/store/postgres/sql/complete_keyed.sql",
        "where key = d.key and job_id = d.id and",
        "where key = d.key and",
        "test(=conformance::postgres::unique_key_release::not_the_key_that_another_has_by_now)",
    ),
    of(
        "a-batch-waits-for-a-sender",
        "src/store/postgres/sql/complete_keyed.sql",
        "for update skip locked",
        "for update",
        "test(=conformance::uniques::the_end_of_a_job_waits_for_no_sender)",
    ),
    of(
        "a-batch-frees-the-key-of-who-is-not-gone",
        "src/store/postgres/sql/complete_keyed.sql",
        "                   and not exists (select from {schema}.dead_letter_job where id = d.id)\n",
        "",
        "test(=conformance::postgres::unique_key_rows::an_id_in_two_tables_keeps_its_key)",
    ),
    of(
        "a-batch-leaves-its-keys",
        "src/store/postgres/sql/complete_keyed.sql",
        "where key is not null order by key",
        "where key is null order by key",
        "test(=conformance::postgres::unique_key_rows::none_is_left)",
    ),
    of(
        "keyed-jobs-keep-what-else-they-hold",
        "src/store/postgres/sql/complete_keyed.sql",
        "case when :holding then (:ids::uuid[])::text else '' end",
        "case when :holding then '{}' else '' end",
        "test(=conformance::postgres::unique_key_release::beside_others_that_hold_something)",
    ),
    of(
        "keys-are-forgotten-with-any-row",
        "migrations/postgres/0001_schema.sql",
        "          and not exists (select from {schema}.timer_job where id = old.id)\n",
        "",
        "test(=conformance::postgres::unique_key_release::jobs_that_have_not_ended_keep_their_keys)",
    ),
    of(
        "a-key-that-is-none-keeps-its-row",
        "migrations/postgres/0001_schema.sql",
        "~ '^([0-9a-f]{2})+$'",
        "is not null",
        "test(=conformance::postgres::unique_key_rows::keys_that_are_none)",
    ),
    of(
        "many-keys-are-taken-whoever-has-them",
        "migrations/postgres/0001_schema.sql",
        "            order by u.key;\n            return;\n",
        "            order by u.key\n            on conflict do nothing;\n            return;\n",
        "test(=conformance::postgres::unique_key_rows::a_sender_that_waits_for_a_key_holds_no_other_key)",
    ),
];
