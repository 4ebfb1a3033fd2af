-- The rows that expire_jobs.sql would make dead letters, without their content: used when it can't move them all.
-- :limit::int8
(
    select id, seq, version::int8 as version, false as is_timer
    from {schema}.job
    where options ? 'expires'::text and lock_owner is null
      and (options ->> 'expires'::text)::int8 <= (extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8
    order by (options ->> 'expires'::text)::int8
    limit :limit
)
union all
(
    select id, seq, version, true
    from {schema}.timer_job
    where options ? 'expires'::text
      and (options ->> 'expires'::text)::int8 <= (extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8
    order by (options ->> 'expires'::text)::int8
    limit :limit
)
