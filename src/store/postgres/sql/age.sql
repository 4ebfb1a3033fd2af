-- Raises long-waiting jobs of one queue (:queue), waiting or blocked on its key (:blocked_on), by one priority for every :aging_us
-- microseconds of waiting.
-- Only the oldest :limit of each priority are considered: they are next in line, and the rows after them move up when they are gone. The
-- existing priorities are found by stepping through the index, so the cost does not depend on the number of waiting jobs.
-- `aged` records how much was already added, up to the best priority. So the raise can be taken back if the clock turns out to have been
-- ahead and no job has waited that long.
-- What was written by hand may not keep the others from being raised: a count that is none is zero, a job from ever ago has waited for ten
-- years, and one without an end of ever has not waited.
-- :queue::text, :aging_us::int8, :limit::int8, :blocked_on::text
with recursive ranks as (
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
old as materialized (
    select c.ctid as tid, c.aged,
           greatest(0, least(floor(extract(epoch from statement_timestamp() - c.since)::float8 * 1000000::float8 / :aging_us::float8)::int8,
                             c.rank + 32767 + c.aged)) as steps
    from ranks r
    cross join lateral (
        select j.ctid, j.rank,
               case when jsonb_typeof(j.options -> 'aged'::text) = 'number' then least(greatest((j.options ->> 'aged'::text)::numeric, 0), 65535)::int8 else 0 end as aged,
               least(greatest(j.created_at, statement_timestamp() - interval '10 years'), statement_timestamp() + interval '10 years') as since
        from {schema}.job j
        where j.queue = :queue and j.rank = r.rank and j.lock_owner is null and j.blocked_on is null
        order by j.seq
        limit :limit
        for update skip locked
    ) c
    where r.rank is not null
),
old_blocked as materialized (
    select c.ctid as tid, c.aged,
           greatest(0, least(floor(extract(epoch from statement_timestamp() - c.since)::float8 * 1000000::float8 / :aging_us::float8)::int8,
                             c.rank + 32767 + c.aged)) as steps
    from blocked_ranks r
    cross join lateral (
        select b.ctid, b.rank,
               case when jsonb_typeof(b.options -> 'aged'::text) = 'number' then least(greatest((b.options ->> 'aged'::text)::numeric, 0), 65535)::int8 else 0 end as aged,
               least(greatest(b.created_at, statement_timestamp() - interval '10 years'), statement_timestamp() + interval '10 years') as since
        from {schema}.job b
        where b.blocked_on = :blocked_on and b.share = r.share and b.rank = r.rank and b.lock_owner is null
        order by b.seq
        limit :limit
        for update skip locked
    ) c
),
raised as (
    update {schema}.job j
    set rank = least(j.rank - (old.steps - old.aged), 32767)::int2,
        options = coalesce(j.options, '{}') || jsonb_build_object('aged', old.steps)
    from (select * from old union all select * from old_blocked) old
    where {briefly} and j.ctid = old.tid and old.steps <> old.aged and coalesce(jsonb_typeof(j.options), 'object') = 'object'
    returning j.seq
)
select count(*) from raised
