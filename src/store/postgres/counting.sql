-- name: claim_counted
-- Claims the best waiting rows of a queue under limits that the claim itself counts: of the queue, of the one kind that it asks for, or
-- both.
-- Like `claim` (see there), but without the shared cursor, which would advance without knowing how many rows may be taken. `quota` waits
-- for other claims that count under the same keys, and then sees their counts (`allowance` in the schema). Rows are picked after that.
-- Hidden rows are claimed too, because their delivery could not start them.
-- Jobs that an admission pass admitted hold their permits, and are not counted. They come first, through an index of their own; the
-- condition on `blocked_on` rules out every other index. They are looked for only when some may be new (:admitted_too), because the
-- index keeps all rows that died as long as any snapshot is held.
-- It takes the locks, and for each key its name, scope, subject, and how many jobs the node runs under it (:locks to :running_counts).
-- The last row of the answer says how many were allowed, after how long more will be, whether a key was unblocked, which limits must be
-- counted afresh, whether there may be more jobs that could start once allowed, whether jobs blocked on a key got nothing by chance, whether
-- it left to other nodes some of what has ended here, and whether admitted jobs hold a part of a limit.
-- :node::int8, :queue::text, :after_ranks::int2[], :after_seqs::int8[], :last_ranks::int2[], :last_seqs::int8[], :kinds::text[],
-- :limit::int8, :claim::int4, :locks::int8[], :keys::text[], :scopes::text[], :names::text[], :running_counts::int4[],
-- :queue_counted::bool, :kind_counted::bool, :admitted_too::bool
with me as materialized (
    select coalesce({schema}.hold_node(:node), {schema}.refuse_node(:node)) as id
),
quota as materialized (
    select a.*
    from me cross join lateral {schema}.allowance(me.id, :claim, :locks::int8[], :keys::text[], :scopes::text[], :names::text[], :running_counts::int4[], :limit) a
),
ahead as materialized (
    select array(
        select c.ctid
        from {schema}.job c
        where (select n from quota) is not null and :admitted_too::bool
          and c.queue = :queue and c.admitted and coalesce(c.blocked_on, '') = '' and c.lock_owner is null
          and {queue_open(:queue)}
          and {may_start}
          and c.kind = any (:kinds::text[])
        order by c.rank, c.seq
        limit :limit
        for update skip locked
    ) as tids
),
room as materialized (
    select least(quota.n, :limit - cardinality(ahead.tids)) as n from quota cross join ahead
),
fresh as materialized (
    select array(
        select found.ctid
        from unnest(:after_ranks::int2[], :after_seqs::int8[], :last_ranks::int2[], :last_seqs::int8[]) as range (rank, after, last_rank, last_seq)
        cross join lateral (
            select c.ctid
            from {schema}.job c
            where c.queue = :queue
              and (c.rank, c.seq) > (range.rank, range.after)
              and (c.rank, c.seq) <= (range.last_rank, range.last_seq)
              and c.lock_owner is null
              and c.blocked_on is null
              and not c.admitted
              and {queue_open(:queue)}
              and {uncovered}
              and c.kind = any (:kinds::text[])
            order by c.rank, c.seq
            limit :limit
            for update skip locked
        ) as found
        limit (select n from room)
    ) as tids
),
claimed as (
    update {schema}.job j
    set lock_owner = me.id,
        version    = :claim::int4,
        attempt    = j.attempt + 1,
        claimed_at = clock_timestamp(),
        visible_at = null
    from me
    where j.ctid = any (array(select unnest(tids) from ahead union all select unnest(tids) from fresh))
    returning {job:j}, j.ctid
),
counts as materialized (
    select count(*) filter (where not admitted)::int4 as n, count(*) as taken from claimed
),
-- If nothing was allowed, a few rows at the head of the queue show whether the claim wanted any. Owned rows don't count.
head as (
    select c.kind, c.options, c.queue
    from {schema}.job c
    where c.queue = :queue and c.blocked_on is null and c.lock_owner is null and not c.admitted
      and (c.rank, c.seq) > ((:after_ranks::int2[])[1], (:after_seqs::int8[])[1])
    order by c.rank, c.seq
    limit 200
),
waiting as (
    select exists (select from head c where c.kind = any (:kinds::text[]) and {uncovered}) as waits
),
used as (
    insert into {schema}.usage (key, node, n, demand, version, first, at)
    select k.key, me.id, k.runs + counts.n, case when counts.n < room.n then 0 when room.n > 0 or (select waits from waiting) then greatest(:limit - counts.taken, 0) else 0 end,
           :claim::int4, :claim::int4, clock_timestamp()
    from me cross join counts cross join room cross join quota
    cross join lateral unnest(quota.limited, quota.runs) as k(key, runs)
    on conflict (key, node) do update
    set n = excluded.n, demand = excluded.demand, version = excluded.version, at = excluded.at
    -- Unchanged counts write no new version of the row. But each start is written, with the number of its claim: an earlier claim that runs
    -- after this one must see that it is late, because its count is lower than what runs. A claim with a limit of zero (:limit) is made in
    -- order to write. Old rows are rewritten too, because claim numbers wrap around.
    where (usage.n, usage.demand) is distinct from (excluded.n, excluded.demand)
       or (select n from counts) > 0
       or :limit = 0
       or usage.at < clock_timestamp() - case when excluded.demand > 0 then interval '2 seconds' else interval '1 minute' end
),
logged as materialized (
    select {schema}.log_starts(quota.rated, quota.parts, counts.n) as n from counts cross join quota
)
-- The jobs, and one row about the limits: never joined, only one below the other, so neither has to repeat the columns of the other.
select claimed.*, told.*
from (
    select room.n as allowed, quota.wait as wait_us, quota.unblocked, quota.anew as recount,
           room.n > 0 or (select waits from waiting) or (select count(*) from head) = 200 as waits,
           quota.passed as passed_over, coalesce(quota.spare > counts.n, false) as yields, quota.permits
    from quota cross join room cross join counts cross join logged
) told
full join claimed on false
