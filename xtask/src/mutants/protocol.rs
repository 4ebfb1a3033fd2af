//! In the statements of PostgreSQL, as far as the rules of the protocol show it: found by the bridge to the model, and by statements that are stopped midway.

use super::{Mutant, of};

pub(super) const MUTANTS: &[Mutant] = &[
    of(
        "a-claim-does-not-hold-its-node",
        "src/store/postgres/sql/claim.sql",
        "coalesce({schema}.hold_node(:node), {schema}.refuse_node(:node)) as id",
        "coalesce((select n.id from {schema}.node n where n.id = :node and n.dead_at is null), {schema}.refuse_node(:node)) as id",
        "binary(stores) & test(/^conformance::postgres::claims_in_flight::/)",
    ),
    of(
        "a-claim-of-deliveries-does-not-hold-its-node",
        "src/store/postgres/sql/claim_delivered.sql",
        "coalesce({schema}.hold_node(:node), {schema}.refuse_node(:node)) as id",
        "coalesce((select n.id from {schema}.node n where n.id = :node and n.dead_at is null), {schema}.refuse_node(:node)) as id",
        "binary(stores) & test(/^conformance::postgres::claims_in_flight::/)",
    ),
    of(
        "a-hand-over-does-not-hold-its-node",
        "src/store/postgres/sql/insert_owned.sql",
        "select {schema}.hold_node(:node) as id",
        "select (select n.id from {schema}.node n where n.id = :node and n.dead_at is null) as id",
        "binary(stores) & test(/^conformance::postgres::claims_in_flight::/)",
    ),
    of(
        "a-claim-sees-its-node-as-it-was",
        "migrations/postgres/0001_schema.sql",
        "create function {schema}.hold_node(node bigint) returns bigint\nlanguage plpgsql volatile",
        "create function {schema}.hold_node(node bigint) returns bigint\nlanguage plpgsql stable",
        "binary(stores) & test(/^conformance::postgres::claims_in_flight::/)",
    ),
    of(
        "an-id-in-two-tables-stops-recovery",
        "src/store/postgres/sql/release_lost.sql",
        "    on conflict (id) do nothing\n",
        "",
        "binary(stores) & test(/^conformance::postgres::old_snapshots::/)",
    ),
    of(
        "an-id-in-two-tables-vetoes-outcomes",
        "src/store/postgres/sql/settle.sql",
        "where not dies and verdict in ('retry', 'snooze')\n    on conflict (id) do nothing",
        "where not dies and verdict in ('retry', 'snooze')",
        "binary(stores) & test(/^conformance::postgres::old_snapshots::/)",
    ),
    of(
        "looks-see-nothing",
        "src/store/postgres/sql/release_unknown.sql",
        "  and lock_owner = :node",
        "  and lock_owner = :node and false",
        "binary(stores) & test(/^model_replay::postgres::claims::/)",
    ),
    of(
        "looks-compare-jobs",
        "src/store/postgres/sql/release_unknown.sql",
        "((id, version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is not true",
        "(:versions::int8[] is null or id <> all (:ids::uuid[]))",
        "binary(stores) & test(/^conformance::postgres::release_unknown::/)",
    ),
    of(
        "looks-at-endings-compare-jobs",
        "src/store/postgres/sql/unknown_terminating.sql",
        "((job_id, version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is not true",
        "(:versions::int8[] is null or job_id <> all (:ids::uuid[]))",
        "binary(stores) & test(/^conformance::postgres::terminating::/)",
    ),
    of(
        "any-hand-out-is-taken-back",
        "src/store/postgres/sql/take_back.sql",
        "and ((e.id, e.version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is true",
        "and e.version is not null",
        "binary(stores) & test(/^model_replay::postgres::external::/)",
    ),
    of(
        "handlers-of-the-dead-keep-what-they-held",
        "src/store/postgres/sql/lost_terminating.sql",
        "where e.node is not null and",
        "where false and",
        "binary(stores) & test(/^model_replay::postgres::groups::/)",
    ),
    of(
        "ids-of-waiting-jobs-are-free",
        "migrations/postgres/0001_schema.sql",
        "where (select t.id from {schema}.job t where t.id = i.id limit 1) is null",
        "where true",
        "binary(stores) & test(/^model_replay::postgres::identity::/)",
    ),
];
