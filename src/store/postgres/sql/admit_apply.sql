-- Applies the decisions of an admission pass. Permits are taken only for rows that still exist: anything else that may remove one waits for
-- this statement, or came before it.
-- No joins: the ids find the rows, and an id's position in the array gives its values (settle.sql says why). `coalesce` keeps the planner
-- away from the indexes on blocked rows.
-- $1, $2: jobs that are admitted, blocked and waiting ones. $3, $4: a job and the key of a permit that it takes. $5 to $8: a blocked job,
-- its key, its share, the group that it holds from now on. $9 to $11: a waiting job that a rule covers, its key, its share. $12 to $14: a
-- key, its starts under a rate, and the interval within which starts are counted together. $15 to $17: unblocks, with their time (null =
-- now).
with moved as (
    -- Anything else that may change these rows waits for this statement, or came before it.
    update {schema}.job set admitted = true, blocked_on = null, share = null
    where id = any ($1::uuid[]) and coalesce(blocked_on, '') <> '' and lock_owner is null
    returning id, queue
),
marked as (
    -- The delivery may already have come and gone, so the row is no longer hidden for it.
    update {schema}.job set admitted = true, visible_at = null where id = any ($2::uuid[]) and not admitted and coalesce(blocked_on, '') = '' returning id, queue
),
turned as (
    update {schema}.job
    set blocked_on = ($6::text[])[array_position($5::uuid[], id)], share = ($7::text[])[array_position($5::uuid[], id)],
        admitted = admitted or ($8::text[])[array_position($5::uuid[], id)] is not null
    where id = any ($5::uuid[]) and coalesce(blocked_on, '') <> '' and lock_owner is null
    returning id, ($8::text[])[array_position($5::uuid[], id)] as hold
),
parked as (
    -- As above: the delivery may already have come and gone.
    update {schema}.job
    set blocked_on = ($10::text[])[array_position($9::uuid[], id)], share = ($11::text[])[array_position($9::uuid[], id)], visible_at = null
    where id = any ($9::uuid[]) and lock_owner is null and not admitted and coalesce(blocked_on, '') = ''
),
taken as (
    insert into {schema}.permit (job_id, key)
    select s.id, s.key
    from unnest($3::uuid[], $4::text[]) as s(id, key)
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
          and l.at >= 'epoch'::timestamptz + (extract(epoch from statement_timestamp()) * 1000000)::int8 / s.part * s.part * interval '1 microsecond'
          -- Leaves headroom for the addition.
          and l.n < 1000000000
        order by l.at desc
        limit 1
    ) as tid
    from unnest($12::text[], $13::int4[], $14::int8[]) as s(key, n, part)
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
    from unnest($15::text[], $16::timestamptz[], $17::int4[]) as o(key, at, n)
    -- An earlier unblock of the key says the same.
    where o.at is null or not exists (select from {schema}.unblock e where e.key = o.key and e.unblock_at <= o.at)
)
select count(*), array_agg(distinct queue)
from (select queue from moved union all select queue from marked) started
