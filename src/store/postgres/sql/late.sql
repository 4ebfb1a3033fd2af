-- The hand-outs that expire_external.sql would release, without their content: used to find the one that it can't release.
-- :limit::int8
select id, version, seq from {schema}.external_job where lease_until <= statement_timestamp() order by lease_until limit :limit
