-- Times to live of timer jobs that began in the future begin now. Only the farthest ends are checked, which are read from the end of their
-- index: what a clock that was far ahead wrote is among them, and nearer ones are late by less.
-- :limit::int8
with ahead as materialized (
    select j.ctid as tid,
           least(floor(case when jsonb_typeof(j.options -> 'ttl'::text) = 'number' then (j.options ->> 'expires'::text)::numeric - (j.options ->> 'ttl'::text)::numeric end), 4000000000000000000)::int8 - (extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8 as by
    from {schema}.timer_job j
    where j.ctid = any (array(
        select c.ctid
        from {schema}.timer_job c
        where c.options ? 'expires'::text
        order by (c.options ->> 'expires'::text)::int8 desc
        limit :limit
    ))
      and case when jsonb_typeof(j.options -> 'ttl'::text) = 'number' then (j.options ->> 'expires'::text)::numeric - (j.options ->> 'ttl'::text)::numeric end > (extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8::numeric + 1000000::numeric
    for update skip locked
),
repaired as (
    update {schema}.timer_job j
    set options = jsonb_set(j.options, '{expires}', to_jsonb((j.options ->> 'expires'::text)::int8 - ahead.by))
    from ahead
    where j.ctid = ahead.tid
)
select count(*) as n, coalesce(max(by), 0)::int8 as far_us from ahead
