-- The oldest jobs of a queue by priority, waiting or blocked on its key, and how many steps each has waited (see age.sql).
ranks as (
    (select c.rank from {schema}.job c where c.queue = :queue and c.lock_owner is null and c.blocked_on is null order by c.rank limit 1)
    union all
    select (select c.rank from {schema}.job c where c.queue = :queue and c.rank > ranks.rank and c.lock_owner is null and c.blocked_on is null order by c.rank limit 1)
    from ranks
    where ranks.rank is not null
),
blocked_ranks as (
    (select b.share, b.rank from {schema}.job b where b.blocked_on = :blocked_on order by b.share, b.rank limit 1)
    union all
    select n.share, n.rank
    from blocked_ranks r
    cross join lateral (
        select b.share, b.rank
        from {schema}.job b
        where b.blocked_on = :blocked_on and (b.share, b.rank) > (r.share, r.rank)
        order by b.share, b.rank
        limit 1
    ) n
),
oldest as materialized (
    select c.tid, c.id, c.rank, c.aged, c.created_at
    from ranks r
    cross join lateral (
        select j.ctid as tid, j.id, j.rank, j.options -> 'aged'::text as aged, j.created_at
        from {schema}.job j
        where j.queue = :queue and j.rank = r.rank and j.lock_owner is null and j.blocked_on is null
        order by j.seq
        limit :limit
        for update skip locked
    ) c
    where r.rank is not null
    union all
    select c.tid, c.id, c.rank, c.aged, c.created_at
    from blocked_ranks r
    cross join lateral (
        select b.ctid as tid, b.id, b.rank, b.options -> 'aged'::text as aged, b.created_at
        from {schema}.job b
        where b.blocked_on = :blocked_on and b.share = r.share and b.rank = r.rank and b.lock_owner is null
        order by b.seq
        limit :limit
        for update skip locked
    ) c
),
old as materialized (
    select c.tid, c.id, n.aged,
           greatest(0, least(floor(extract(epoch from statement_timestamp() - n.since)::float8 * 1000000::float8 / :aging_us::float8)::int8,
                             c.rank + 32767 + n.aged)) as steps
    from oldest c
    cross join lateral (
        select case when jsonb_typeof(c.aged) = 'number' then least(greatest((c.aged #>> '{}'::text[])::numeric, 0), 65535)::int8 else 0 end as aged,
               least(greatest(c.created_at, statement_timestamp() - interval '10 years'), statement_timestamp() + interval '10 years') as since
    ) n
)
