-- Jobs of a queue that age.sql may raise, waiting or blocked on its key, the first ones of each: used to find the one that it can't raise.
-- :queue::text, :blocked_on::text, :limit::int8
(
    select id, version::int8 as version, seq
    from {schema}.job
    where queue = :queue and lock_owner is null and blocked_on is null
    order by rank, seq
    limit :limit
)
union all
(
    select id, version::int8, seq
    from {schema}.job
    where blocked_on = :blocked_on and lock_owner is null
    order by share, rank, seq
    limit :limit
)
