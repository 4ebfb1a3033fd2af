-- name: orphaned_permits
-- A page of permits, in the order of their primary key: those whose holder is in no table, and the last one, if there may be more behind it.
-- Triggers release a permit with its holder, but not where a table was truncated, restored alone, or written with triggers off. One statement,
-- so a job that moves from table to table is in one of them. The lease of a node is left to `lost_terminating`.
-- :after_holder::uuid, :after_key::text, :limit::int8
with page as materialized (
    select job_id, key, node from {schema}.permit where (job_id, key) > (:after_holder, :after_key) order by job_id, key limit :limit
)
select job_id, key, true as is_orphaned
from page p
where node is null
  and {orphaned:p}
union all
select job_id, key, false
from (select job_id, key from page order by job_id desc, key desc limit 1) last
where (select count(*) from page) = :limit

-- name: unblock_stuck
-- Unblocks keys that jobs are blocked on although no permit, no count of a node and no rule holds them up, and that nothing will unblock: the note
-- got lost with a table that was truncated or restored alone. One more unblock does no harm. It steps from key to key, :limit of them, so its
-- cost does not depend on the number of blocked jobs. The last column is where the next page begins; null = there are no more.
-- :after::text, :limit::int8
with recursive step (key, n) as (
    (select b.blocked_on, 1::int8 from {schema}.job b where b.blocked_on > :after order by b.blocked_on limit 1)
    union all
    select (select b.blocked_on from {schema}.job b where b.blocked_on > step.key order by b.blocked_on limit 1), step.n + 1
    from step
    where step.key is not null and step.n < :limit
),
keys as materialized (
    select key, n, substr(key, 3) as name,
           case left(key, 2) when 'q:' then 'queue' when 'k:' then 'kind' when 't:' then 'tenant' when 'l:' then 'key' else 'group' end as scope
    from step
    -- Suspects of the death of a process wait for an idle node (`suspects`).
    where key is not null and key <> 'alone'
),
opened as (
    insert into {schema}.unblock (key)
    select k.key
    from keys k
    where (select s.ctid from {schema}.permit s where s.key collate "C" = k.key limit 1) is null
      and (select u.key from {schema}.usage u where u.key = k.key and u.n > 0 limit 1) is null
      and not exists (select from {schema}.unblock o where o.key = k.key)
      and not exists (select from {schema}.rule r
                      where r.scope = k.scope and (r.paused or r.running = 0)
                        and (r.name = k.name
                             or r.name = '*' and (r.paused or not exists (select from {schema}.rule own where own.scope = k.scope and own.name = k.name))))
    returning key
)
select (select array_agg(key) from opened) as opened,
       (select key from keys where n = :limit) as last

-- name: reclaim_permits
-- Takes back permits that were found without a holder some time ago, if they still have none. Runs in the turn of an admission pass: nothing else
-- gives permits to jobs meanwhile, and what did before is seen here.
-- :holders::uuid[], :keys::text[]
with gone as (
    delete from {schema}.permit p
    where {briefly}
      and p.job_id = any (:holders::uuid[])
      and ((p.job_id, p.key) in (select * from unnest(:holders::uuid[], :keys::text[]))) is true
      and p.node is null
      and {orphaned:p}
    returning p.job_id, p.key
),
unblocked as (
    insert into {schema}.unblock (key) select distinct key from gone
)
select job_id, key from gone

-- name: left_keys
-- Unique keys whose jobs are in no table, of some thousands from a random place on: keys are hashes, so each is looked at some time. Triggers
-- release a key with its job, but not where a table was truncated, restored alone, or written with triggers off. Such a key blocks no sender. The
-- version of the row (xmin) is that which was judged: a sender may be taking the key over.
-- :from::bytea, :limit::int8
select key, xmin::text as version
from (select key, xmin, job_id, hold from {schema}.unique_key where key >= :from order by key limit :limit) u
where hold <> 'period'
  and (select j.id from {schema}.job j where j.id = u.job_id limit 1) is null
  and (select j.id from {schema}.timer_job j where j.id = u.job_id limit 1) is null
  and (select j.id from {schema}.suspended_job j where j.id = u.job_id limit 1) is null
  and (select j.id from {schema}.dead_letter_job j where j.id = u.job_id limit 1) is null
  and (select j.id from {schema}.external_job j where j.id = u.job_id limit 1) is null

-- name: prune_keys
-- Forgets unique keys that were found without a job, each only in the version that was judged (`left_keys`).
-- :keys::bytea[], :versions::text[]
with gone as (
    delete from {schema}.unique_key
    where {briefly} and ctid = any (array(
        select u.ctid
        from {schema}.unique_key u
        where u.key = any (:keys::bytea[]) and ((u.key, u.xmin::text) in (select * from unnest(:keys::bytea[], :versions::text[]))) is true
        for update skip locked
    ))
    returning 1
)
select count(*) from gone
