-- Starts in the future count as now: when they were is not known any more, and a rate is rather kept for too long than broken.
with ahead as materialized (
    select ctid as tid, extract(epoch from at - statement_timestamp()) * 1000000 as by
    from {schema}.rate_log
    where at > statement_timestamp() + interval '1 second'
    for update skip locked
),
righted as (
    update {schema}.rate_log l set at = statement_timestamp() from ahead where l.ctid = ahead.tid
)
select count(*), coalesce(max(by), 0)::int8 from ahead
