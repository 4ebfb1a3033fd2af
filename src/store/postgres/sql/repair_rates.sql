-- Starts in the future count as now: their real time is not known any more, and a rate is better enforced for too long than broken.
with ahead as materialized (
    select ctid as tid, extract(epoch from at - statement_timestamp())::float8 * 1000000::float8 as by
    from {schema}.rate_log
    where at > statement_timestamp() + interval '1 second'
    for update skip locked
),
repaired as (
    update {schema}.rate_log l set at = statement_timestamp() from ahead where l.ctid = ahead.tid
)
select count(*) as n, coalesce(max(by), 0)::int8 as far_us from ahead
