-- name: admit_check
-- Whether an admission pass has work now, and when it will have some. Blocked rows need no check: every event that concerns a key has
-- written an unblock.
select exists (select from {schema}.unblock where unblock_at <= statement_timestamp()) as unblocks,
       exists (select from {schema}.rule r where r.paused or r.running is not null or r.rate is not null) as limited,
       (select (extract(epoch from min(unblock_at) - statement_timestamp())::float8 * 1000000::float8)::int8
        from {schema}.unblock
        where unblock_at > statement_timestamp() and unblock_at < 'infinity') as next_us,
       (select min(aging) from {schema}.rule) as aging_us,
       -- The rules that claims count themselves, and whether there are others.
       (select array_agg(r.scope || ':' || r.name) from {schema}.rule r
        where {counted} and (r.running is not null or r.rate is not null)) as counted,
       exists (select from {schema}.rule r
               where r.paused or (r.running is not null or r.rate is not null) and not {counted}) as uncounted,
       -- Without rules, only blocked jobs are admitted, which are found by their keys.
       case when exists (select from {schema}.rule r where r.paused or r.running is not null or r.rate is not null)
            then (select jsonb_agg(distinct jsonb_build_object('queue', w.queue, 'kinds', to_jsonb(w.kinds)))
                  from {schema}.worker w
                  where w.heard_at > statement_timestamp() - interval '10 minutes')
       end as worked_by_sql,
       -- Whether a change of the rules has still to hand over what claims counted before (rules.rs). Only where claims no longer count does
       -- that make a limit smaller, and only then are these rows read: one for each node and limit, but each claim leaves a dead version.
       exists (select from {schema}.rule r where (r.running is not null or r.rate is not null) and not {counted})
           and exists (select from {schema}.usage u where {uncounted_usage}) as unfinished

-- name: admit_lock
-- Admission passes exclude each other. This is a separate statement, because only later ones see what it waited for.
select from {schema}.admission for update

-- name: admit_candidates
-- Takes unblocked keys, and reads the best jobs blocked on each: in each share as many as the key was unblocked for, at most :limit.
-- Then reads the first waiting rows of these queues that a rule covers, among the first :ahead (claims scan the same ones). If claims
-- count limits themselves (:counting), these are only rows under other rules.
-- A key's shares are found by stepping through the index, once per share: there may be few shares and a million blocked jobs.
-- Of each key, all unblocks are taken that are among the first twenty times :max_keys, because a bulk insert writes one per flush. Those of
-- keys that no job is blocked on are only removed, and do not count towards :max_keys: anyone who may send may write any number of them,
-- and groups that wait must not wait for those. Suspects wait for no key that a pass could free (`suspects`). The last row of the answer says how many were removed, and (in `seq`) whether there may be
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
    where {awaits_admission(:counting::bool)}
    limit :limit
) w
union all
select null, null, null, null, null, null, null, null, null, null, key, n
from keys
union all
select null, null, (select count(*) >= 20 * :max_keys::int8 or count(*) > (select count(*) from unblocked) from noted)::int::int8, null, null, null, null, null, null,
       null, null, (select count(*) from unblocked)

-- name: lock_limits
-- Waits for claims that count under these keys, and lets none count before this transaction is over. A separate statement, because only
-- later ones see what it waited for.
-- :locks::int8[]
select {schema}.lock_limits(:locks)

-- name: admit_usage
-- The usage of each key: permits, and the running jobs that nodes count themselves. Also the permits that candidates already hold, and the
-- starts within the period of a rate (0 = the key has none). Each key is looked up separately: joins that were planned on empty tables read
-- all permits.
-- :keys::text[], :periods_us::int8[], :ids::uuid[]
select 'permits' as what, k.key, null::uuid as job_id,
       (select count(s.ctid) from {schema}.permit s where s.key collate "C" = k.key)
           + (select coalesce(sum(u.n), 0) from {schema}.usage u where u.key = k.key)::int8 as n,
       null::int8 as oldest
from unnest(:keys::text[]) k(key)
union all
select 'held', key, job_id, 0, null
from {schema}.permit
where job_id = any (:ids::uuid[])
union all
select 'rate', k.key, null, l.n, l.oldest
from unnest(:keys::text[], :periods_us::int8[]) k(key, period)
cross join lateral (
    select sum(n) as n, min((extract(epoch from at)::float8 * 1000000::float8)::int8) as oldest
    from {schema}.rate_log
    where key = k.key and at > statement_timestamp() - k.period::float8 * interval '1 microsecond'
) l
where k.period > 0 and l.n is not null
union all
select 'now', null, null, (extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8, null

-- name: admit_apply
-- Applies the decisions of an admission pass. Permits are taken only for rows that still exist: anything else that may remove one waits for
-- this statement, or came before it.
-- A row that another transaction has locked is waited for briefly; the pass is then repeated without it (store/postgres/admission.rs).
-- No joins: the ids find the rows, and an id's position in the array gives its values (`settle` says why). `coalesce` keeps the planner
-- away from the indexes on blocked rows.
-- Its arrays are the jobs that are admitted (:blocked_ids and :waiting_ids); jobs with the keys of the permits that they take
-- (:permit_job_ids, :permit_keys); blocked jobs, each with its new key, its share and the group that it holds from now on
-- (:turned_ids to :turned_holds); waiting jobs that a rule covers, each with its key and share (:parked_ids to :parked_shares); keys with
-- their starts under a rate, and the interval within which starts are counted together (:rate_keys to :rate_parts_us); unblocks with their
-- times, null for now (:unblock_keys to :unblock_counts).
-- :blocked_ids::uuid[], :waiting_ids::uuid[], :permit_job_ids::uuid[], :permit_keys::text[], :turned_ids::uuid[],
-- :turned_keys::text[], :turned_shares::text[], :turned_holds::text[], :parked_ids::uuid[], :parked_keys::text[],
-- :parked_shares::text[], :rate_keys::text[], :rate_starts::int4[], :rate_parts_us::int8[], :unblock_keys::text[],
-- :unblock_times::timestamptz[], :unblock_counts::int4[]
with moved as (
    -- Anything else that may change these rows waits for this statement, or came before it.
    update {schema}.job set admitted = true, blocked_on = null, share = null
    where {briefly} and id = any (:blocked_ids::uuid[]) and coalesce(blocked_on, '') <> '' and lock_owner is null
    returning id, queue
),
marked as (
    -- The delivery may already have come and gone, so the row is no longer hidden for it.
    update {schema}.job set admitted = true, visible_at = null where {briefly} and id = any (:waiting_ids::uuid[]) and not admitted and coalesce(blocked_on, '') = '' returning id, queue
),
turned as (
    update {schema}.job
    set blocked_on = (:turned_keys::text[])[array_position(:turned_ids::uuid[], id)], share = (:turned_shares::text[])[array_position(:turned_ids::uuid[], id)],
        admitted = admitted or (:turned_holds::text[])[array_position(:turned_ids::uuid[], id)] is not null
    where {briefly} and id = any (:turned_ids::uuid[]) and coalesce(blocked_on, '') <> '' and lock_owner is null
    returning id, (:turned_holds::text[])[array_position(:turned_ids::uuid[], id)] as hold
),
parked as (
    -- As above: the delivery may already have come and gone.
    update {schema}.job
    set blocked_on = (:parked_keys::text[])[array_position(:parked_ids::uuid[], id)], share = (:parked_shares::text[])[array_position(:parked_ids::uuid[], id)], visible_at = null
    where {briefly} and id = any (:parked_ids::uuid[]) and lock_owner is null and not admitted and coalesce(blocked_on, '') = ''
),
taken as (
    insert into {schema}.permit (job_id, key)
    select s.id, s.key
    from unnest(:permit_job_ids::uuid[], :permit_keys::text[]) as s(id, key)
    where s.id in (select id from moved union all select id from marked)
    union all
    select id, hold from turned where hold is not null
    on conflict do nothing
),
starts as materialized (
    -- Passes run one at a time, so nothing else counts. All starts of an interval count until the last of them is too old.
    select s.key, s.n, (
        select l.ctid
        from {schema}.rate_log l
        where l.key = s.key
          and l.at >= 'epoch'::timestamptz + ((extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8 / s.part * s.part)::float8 * interval '1 microsecond'
          -- Leaves headroom for the addition.
          and l.n < 1000000000
        order by l.at desc
        limit 1
    ) as tid
    from unnest(:rate_keys::text[], :rate_starts::int4[], :rate_parts_us::int8[]) as s(key, n, part)
),
added as (
    update {schema}.rate_log l set n = l.n + s.n, at = statement_timestamp() from starts s where l.ctid = s.tid
),
counted as (
    insert into {schema}.rate_log (key, at, n) select key, statement_timestamp(), n from starts where tid is null
),
unblocked as (
    insert into {schema}.unblock (key, unblock_at, n)
    select o.key, coalesce(o.at, clock_timestamp()), o.n
    from unnest(:unblock_keys::text[], :unblock_times::timestamptz[], :unblock_counts::int4[]) as o(key, at, n)
    -- An earlier unblock of the key says the same.
    where o.at is null or not exists (select from {schema}.unblock e where e.key = o.key and e.unblock_at <= o.at)
    union all
    -- A job that has gone since it was read takes no permit. The unblocks of the key were removed for it, and others may wait for the key.
    select distinct planned.key, clock_timestamp(), 1
    from (select * from unnest(:permit_job_ids::uuid[], :permit_keys::text[]) as p(id, key)
          union all
          select * from unnest(:turned_ids::uuid[], :turned_holds::text[]) as t(id, key) where t.key is not null) planned
    where planned.id not in (select id from moved union all select id from marked union all select id from turned)
)
select count(*) as jobs, array_agg(distinct queue) as queues
from (select queue from moved union all select queue from marked) started

-- name: unowned
-- Those of these jobs that no node owns, waiting or blocked, without their content: used to find the one that a statement fails over.
-- :ids::uuid[]
select id, version::int8 as version, seq from {schema}.job where id = any (:ids::uuid[]) and lock_owner is null
