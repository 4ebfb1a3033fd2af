-- Claims the best waiting rows of a queue under limits that the claim itself counts: of the queue, of the one kind that it asks for, or
-- both.
-- Like claim.sql (see there), but without the shared cursor, which would advance without knowing how many rows may be taken. `quota` waits
-- for other claims that count under the same keys, and then sees their counts (`allowance` in the schema). Rows are picked after that. Hidden rows
-- are claimed too, because their delivery could not start them.
-- Jobs that an admission pass admitted hold their permits, and are not counted. They come first, through an index of their own; the
-- condition on `blocked_on` rules out every other index. They are looked for only when some may be new ($17), because the index keeps all
-- rows that died as long as any snapshot is held.
-- $8: the highest number of jobs; $10 to $14: the locks, and for each key its name, scope, subject, and how many jobs the node runs under
-- it.
-- The last row of the answer says how many were allowed, after how long more will be, whether a key was unblocked, which limits must be
-- counted afresh, whether there may be more jobs that could start once allowed, and whether jobs blocked on a key got nothing by chance.
with me as materialized (
    select coalesce({schema}.hold_node($1), {schema}.refuse_node($1)) as id
),
quota as materialized (
    select a.*
    from me cross join lateral {schema}.allowance(me.id, $9, $10::int8[], $11::text[], $12::text[], $13::text[], $14::int4[], $8) a
),
ahead as materialized (
    select array(
        select c.ctid
        from {schema}.job c
        where (select n from quota) is not null and $17::bool
          and c.queue = $2 and c.admitted and coalesce(c.blocked_on, '') = '' and c.lock_owner is null
          and {queue_open:$2}
          and {may_start}
          and c.kind = any ($7::text[])
        order by c.rank, c.seq
        limit $8
        for update skip locked
    ) as tids
),
room as materialized (
    select least(quota.n, $8 - cardinality(ahead.tids)) as n from quota cross join ahead
),
fresh as materialized (
    select array(
        select found.ctid
        from unnest($3::int2[], $4::int8[], $5::int2[], $6::int8[]) as range (rank, after, last_rank, last_seq)
        cross join lateral (
            select c.ctid
            from {schema}.job c
            where c.queue = $2
              and (c.rank, c.seq) > (range.rank, range.after)
              and (c.rank, c.seq) <= (range.last_rank, range.last_seq)
              and c.lock_owner is null
              and c.blocked_on is null
              and not c.admitted
              and {queue_open:$2}
              and {uncovered}
              and c.kind = any ($7::text[])
            order by c.rank, c.seq
            limit $8
            for update skip locked
        ) as found
        limit (select n from room)
    ) as tids
),
claimed as (
    update {schema}.job j
    set lock_owner = me.id,
        version    = $9::int4,
        attempt    = j.attempt + 1,
        claimed_at = clock_timestamp(),
        visible_at = null
    from me
    where j.ctid = any (array(select unnest(tids) from ahead union all select unnest(tids) from fresh))
    returning j.id, j.seq, j.version::int8, j.kind, j.rank, j.attempt, j.max_attempts, j.created_at,
              j.payload, j.body, j.content_type, j.headers, j.options, j.admitted, j.ctid
),
counts as materialized (
    select count(*) filter (where not admitted)::int4 as n, count(*) as taken from claimed
),
-- If nothing was allowed, a few rows at the head of the queue show whether the claim wanted any. Owned rows don't count.
head as (
    select c.kind, c.options, c.queue
    from {schema}.job c
    where c.queue = $2 and c.blocked_on is null and c.lock_owner is null and not c.admitted
      and (c.rank, c.seq) > (($3::int2[])[1], ($4::int8[])[1])
    order by c.rank, c.seq
    limit 200
),
waiting as (
    select exists (select from head c where c.kind = any ($7::text[]) and {uncovered}) as waits
),
used as (
    insert into {schema}.usage (key, node, n, demand, version, first, at)
    select k.key, me.id, k.runs + counts.n, case when counts.n < room.n then 0 when room.n > 0 or (select waits from waiting) then greatest($8 - counts.taken, 0) else 0 end,
           $9::int4, $9::int4, clock_timestamp()
    from me cross join counts cross join room cross join quota
    cross join lateral unnest(quota.limited, quota.runs) as k(key, runs)
    on conflict (key, node) do update
    set n = excluded.n, demand = excluded.demand, version = excluded.version, at = excluded.at
    -- Unchanged counts write no new version of the row. But each start is written, with the number of its claim: an earlier claim that runs
    -- after this one must see that it is late, because its count is lower than what runs. A claim with a limit of zero ($8) is made in
    -- order to write. Old rows are rewritten too, because claim numbers wrap around.
    where (usage.n, usage.demand) is distinct from (excluded.n, excluded.demand)
       or (select n from counts) > 0
       or $8 = 0
       or usage.at < clock_timestamp() - case when excluded.demand > 0 then interval '2 seconds' else interval '1 minute' end
),
logged as materialized (
    select {schema}.log_starts(quota.rated, quota.parts, counts.n) as n from counts cross join quota
)
select claimed.*, null::int8 as allowed, null::int8 as wait, null::bool as unblocked, null::int4[] as anew, null::bool as waits, null::bool as passed from claimed
union all
select null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, room.n, quota.wait, quota.unblocked, quota.anew,
       -- If all rows at the head are for other kinds, there may be more behind them.
       room.n > 0 or (select waits from waiting) or (select count(*) from head) = 200,
       quota.passed
from quota cross join room cross join logged
