-- A key that was taken for a period in the future counts as taken now, and is held for the requested period. Checks the :limit keys that
-- are held longest: they come first in the index.
-- :limit::int8
with last as materialized (
    select ctid as tid, taken_at, expires_at
    from {schema}.unique_key
    where expires_at > statement_timestamp() + interval '1 second'
    order by expires_at desc
    limit :limit
),
ahead as materialized (
    select k.ctid as tid, k.taken_at - statement_timestamp() as by
    from {schema}.unique_key k
    join last on k.ctid = last.tid
    where k.taken_at > statement_timestamp() + interval '1 second'
    for update of k skip locked
),
repaired as (
    update {schema}.unique_key k
    set taken_at = k.taken_at - ahead.by, expires_at = k.expires_at - ahead.by
    from ahead
    where k.ctid = ahead.tid
)
select count(*) as n, coalesce(max(extract(epoch from by)::float8 * 1000000::float8), 0)::int8 as far_us from ahead
