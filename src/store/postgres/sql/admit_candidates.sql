-- Takes unblocked keys, and reads the best jobs blocked on each: in each share as many as the key was unblocked for, at most :limit.
-- Then reads the first waiting rows of these queues that a rule covers, among the first :ahead (claims scan the same ones). If claims
-- count limits themselves (:counting), these are only rows under other rules.
-- A key's shares are found by stepping through the index, once per share: there may be few shares and a million blocked jobs.
-- Of each key, all unblocks are taken that are among the first twenty times :max_keys, because a bulk insert writes one per flush. Those of
-- keys that no job is blocked on are only removed, and do not count towards :max_keys: anyone who may send may write any number of them,
-- and groups that wait must not wait for those. Suspects wait for no key that a pass could free (suspects.sql). The last row of the answer says how many were removed, and (in `seq`) whether there may be
-- more, because nothing else will.
-- :limit::int8, :queues::text[], :kinds::text[], :ahead::int8, :max_keys::int8, :counting::bool
with noted as materialized (
    select ctid as tid, key from {schema}.unblock where unblock_at <= statement_timestamp() limit 20 * :max_keys::int8
),
noted_keys as materialized (
    -- One index lookup per key, and no join.
    select key, key <> 'alone' and (select b.ctid from {schema}.job b where b.blocked_on = k.key limit 1) is not null as is_waited_for
    from (select distinct key from noted) k
),
picked as materialized (
    select key from noted_keys where is_waited_for limit :max_keys
),
unblocked as (
    delete from {schema}.unblock
    where ctid = any (array(
        select tid
        from noted
        where (key in (select key from picked)) is true or (key in (select key from noted_keys where not is_waited_for)) is true
    ))
    returning key, n
),
keys as materialized (
    -- A group admits one job, however many unblocks came: each of them unblocked the key for one.
    select key, greatest(least(case when key like 'g:%' then max(n) else sum(n) end, :limit::int8), 0) as n
    from unblocked
    where (key in (select key from picked)) is true
    group by key
),
shares as materialized (
    select g.key, g.n, s.share
    from (
        -- No job can enter a group that is taken; releasing the group unblocks it. One index lookup per key, and no join.
        select key, n from keys where key not like 'g:%' or (select s.ctid from {schema}.permit s where s.key collate "C" = keys.key limit 1) is null offset 0
    ) g
    cross join lateral (
        with recursive step as (
            (select b.share from {schema}.job b where b.blocked_on = g.key order by b.share limit 1)
            union all
            select (select b.share from {schema}.job b where b.blocked_on = g.key and b.share > step.share order by b.share limit 1)
            from step
            where step.share is not null
        )
        select share from step where share is not null
    ) s
)
select true as blocked, b.id, b.seq, b.rank, b.kind, b.queue, b.options, b.admitted as holds, b.blocked_on, b.share, null::text as key, null::int8 as n
from shares s
cross join lateral (
    select *
    from {schema}.job b
    -- An owned row runs already, under the lease of a node.
    where b.blocked_on = s.key and b.share = s.share and b.lock_owner is null
    order by b.rank, b.seq
    limit s.n
) b
union all
-- An ordered job that is blocked on the group it holds is the only one that can start, even if others are better. Single lookups instead of
-- joins: those compared each key with each permit, 180 ms for a thousand of them.
select true, b.id, b.seq, b.rank, b.kind, b.queue, b.options, b.admitted, b.blocked_on, coalesce(b.share, ''), null, null
from (select key from keys where key like 'g:%' offset 0) g
cross join lateral (select job_id from {schema}.permit where key collate "C" = g.key and node is null offset 0) s
cross join lateral (select * from {schema}.job where id = s.job_id and coalesce(blocked_on, '') = g.key and lock_owner is null offset 0) b
union all
select false, w.id, w.seq, w.rank, w.kind, w.queue, w.options, false, '', '', null, null
from (select unnest(:queues::text[]) as name) q
cross join lateral (
    select *
    from (
        select c.*
        from {schema}.job c
        where c.queue = q.name
          and c.lock_owner is null
          and c.blocked_on is null
          and not c.admitted
          and (:kinds::text[] is null or c.kind = any (:kinds))
          -- A paused queue is left alone: no claim scans it.
          and {queue_open(q.name)}
        order by c.rank, c.seq
        limit :ahead
    ) c
    where exists (
        select from {schema}.rule r
        where (r.paused or r.running is not null or r.rate is not null)
          and (not :counting::bool or r.paused or not {counted})
          and {covers:c}
    )
    limit :limit
) w
union all
select null, null, null, null, null, null, null, null, null, null, key, n
from keys
union all
select null, null, (select count(*) >= 20 * :max_keys::int8 or count(*) > (select count(*) from unblocked) from noted)::int::int8, null, null, null, null, null, null,
       null, null, (select count(*) from unblocked)
