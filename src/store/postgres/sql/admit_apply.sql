-- Applies the decisions of an admission pass. Permits are taken only for rows that still exist: anything else that may remove one waits for
-- this statement, or came before it.
-- A row that another transaction has locked is waited for briefly; the pass is then repeated without it (store/postgres/admission.rs).
-- No joins: the ids find the rows, and an id's position in the array gives its values (settle.sql says why). `coalesce` keeps the planner
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
)
select count(*) as jobs, array_agg(distinct queue) as queues
from (select queue from moved union all select queue from marked) started
