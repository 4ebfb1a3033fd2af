-- Keys that a rate unblocks later than any period lasts: the clock was ahead. They are unblocked now, and an admission pass finds out
-- whether jobs may start.
with ahead as materialized (
    select ctid as tid, case when isfinite(unblock_at) then extract(epoch from unblock_at - statement_timestamp())::float8 * 1000000::float8 end as by
    from {schema}.unblock
    where unblock_at > statement_timestamp() + interval '1 second'
                     + coalesce((select max(period) from {schema}.rule), 0)::float8 * interval '1 microsecond'
    for update skip locked
),
repaired as (
    update {schema}.unblock o set unblock_at = statement_timestamp() from ahead where o.ctid = ahead.tid
)
select count(*) as n, coalesce(max(by), 0)::int8 as far_us from ahead
