-- Raises what has waited long in one queue ($1), or behind its gate ($4), by one priority for each so many microseconds ($2).
-- Only the oldest $3 of each priority are looked at: they are the next of theirs, and what lies behind them comes up when they are
-- gone. The priorities there are are found by steps through the index, so this costs the same however many wait. `aged` says how much was
-- added already: as much as there is up to the best priority, so that it can be taken back when the clock turns out to have been ahead, and
-- nothing has waited for so long.
with recursive ranks as (
    (select c.rank from {schema}.job c where c.queue = $1 and c.lock_owner is null and c.gate is null order by c.rank limit 1)
    union all
    select (select c.rank from {schema}.job c where c.queue = $1 and c.rank > ranks.rank and c.lock_owner is null and c.gate is null order by c.rank limit 1)
    from ranks
    where ranks.rank is not null
),
blocked_ranks as (
    (select b.share, b.rank from {schema}.job b where b.gate = $4 order by b.share, b.rank limit 1)
    union all
    select n.share, n.rank
    from blocked_ranks r
    cross join lateral (
        select b.share, b.rank
        from {schema}.job b
        where b.gate = $4 and (b.share, b.rank) > (r.share, r.rank)
        order by b.share, b.rank
        limit 1
    ) n
),
old as materialized (
    select c.ctid as tid, coalesce((c.terms ->> 'aged')::int8, 0) as aged,
           greatest(0, least(floor(extract(epoch from statement_timestamp() - c.created_at) * 1000000 / $2)::int8,
                             c.rank + 32767 + coalesce((c.terms ->> 'aged')::int8, 0))) as steps
    from ranks r
    cross join lateral (
        select j.ctid, j.rank, j.created_at, j.terms
        from {schema}.job j
        where j.queue = $1 and j.rank = r.rank and j.lock_owner is null and j.gate is null
        order by j.seq
        limit $3
        for update skip locked
    ) c
    where r.rank is not null
),
old_blocked as materialized (
    select c.ctid as tid, coalesce((c.terms ->> 'aged')::int8, 0) as aged,
           greatest(0, least(floor(extract(epoch from statement_timestamp() - c.created_at) * 1000000 / $2)::int8,
                             c.rank + 32767 + coalesce((c.terms ->> 'aged')::int8, 0))) as steps
    from blocked_ranks r
    cross join lateral (
        select b.ctid, b.rank, b.created_at, b.terms
        from {schema}.job b
        where b.gate = $4 and b.share = r.share and b.rank = r.rank and b.lock_owner is null
        order by b.seq
        limit $3
        for update skip locked
    ) c
),
raised as (
    update {schema}.job j
    set rank = least(j.rank - (old.steps - old.aged), 32767)::int2,
        terms = coalesce(j.terms, '{}') || jsonb_build_object('aged', old.steps)
    from (select * from old union all select * from old_blocked) old
    where j.ctid = old.tid and old.steps <> old.aged
    returning j.seq
)
select count(*) from raised
