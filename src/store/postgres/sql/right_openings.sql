-- Gates that a rate opens later than any period lasts: the clock was ahead. They open now, and a round finds out whether they may.
with ahead as materialized (
    select ctid as tid, extract(epoch from opens_at - statement_timestamp()) * 1000000 as by
    from {schema}.opening
    where opens_at > statement_timestamp() + interval '1 second'
                     + coalesce((select max(period) from {schema}.rule), 0) * interval '1 microsecond'
    for update skip locked
),
righted as (
    update {schema}.opening o set opens_at = statement_timestamp() from ahead where o.ctid = ahead.tid
)
select count(*), coalesce(max(by), 0)::int8 from ahead
