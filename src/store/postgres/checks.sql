-- name: sampled_whole
-- Whether a sample of so many pages is the whole of each of these tables.
-- :pages::int8, :tables::text[]
select coalesce(bool_and(pg_relation_size(c.oid::regclass)::float8 <= :pages::float8 * current_setting('block_size')::float8), false) as whole
from pg_catalog.pg_class c
where c.relnamespace = (select o.relnamespace from pg_catalog.pg_class o where o.oid = '{schema}.job'::regclass)
  and c.relname::text = any (:tables)

-- name: permit_faults
-- Conditions that must never hold among committed rows: see `Operator::permit_faults`. One statement, so that it sees one snapshot. Rows are taken from samples,
-- which are whole tables where these are small or :pages is large. What belongs to such a row is looked up by subselects with a limit: a join could be
-- planned as a walk over a whole table, whatever the size of the sample.
-- :pages::int8
with unblocked as materialized (
    select o.key from {schema}.unblock o limit :pages * 100 + 1
),
held as materialized (select s.* from (select * from {sampled:permit}) s),
jobs as materialized (
    select j.id, j.queue, j.options, j.admitted, j.blocked_on, j.lock_owner
    from (select * from {sampled:job}) j
    where j.admitted or j.blocked_on is not null or j.options ? 'group'::text
)
select 'the permit ' || s.key || ' is held by ' || s.job_id::text || ', which is gone'
from held s
where (select j.id from {schema}.job j
       where j.id = s.job_id and (j.admitted or j.blocked_on is not null and j.options ? 'ordered'::text) limit 1) is null
  and (select j.id from {schema}.external_job j where j.id = s.job_id and j.admitted limit 1) is null
  and (select j.id from {schema}.timer_job j where j.id = s.job_id and j.options ? 'ordered'::text limit 1) is null
  and (select j.id from {schema}.suspended_job j where j.id = s.job_id and j.options ? 'ordered'::text limit 1) is null
  and (select j.id from {schema}.dead_letter_job j where j.id = s.job_id and j.options ? 'ordered'::text limit 1) is null
  and (select e.holder from {schema}.terminating_handler e where e.holder = s.job_id limit 1) is null
  and (select n.id from {schema}.node n where n.id = s.node limit 1) is null
union all
select 'the group ' || k.key || ' is held ' || c.n::text || ' times'
from (select distinct s.key from held s where s.key like 'g:%') k
cross join lateral (select count(p.ctid) as n from {schema}.permit p where p.key collate "C" = k.key) c
where c.n > 1
union all
select 'the job ' || j.id::text || ' of group ' || (j.options ->> 'group'::text) || ' was admitted and does not hold it'
from (select a.id, a.options from jobs a where a.admitted
      union all select a.id, a.options from (select * from {sampled:external_job}) a where a.admitted) j
where j.options ? 'group'::text
  and (select s.key from {schema}.permit s where s.job_id = j.id and s.key = 'g:' || (j.options ->> 'group'::text) limit 1) is null
union all
select 'the job ' || j.id::text || ' of group ' || (j.options ->> 'group'::text) || ' is among the jobs that can start, and was not admitted'
from jobs j
where j.options ? 'group'::text and not j.admitted and j.blocked_on is null
  -- It was parked, and no claim takes it.
  and j.queue not like 'unreadable:%'
union all
select 'the job ' || j.id::text || ' behind ' || j.blocked_on || ' runs, and its node ' || j.lock_owner::text || ' does not hold the group'
from jobs j
where j.blocked_on <> 'alone' and j.lock_owner is not null
  and (select s.node from {schema}.permit s where s.key collate "C" = j.blocked_on and s.node = j.lock_owner limit 1) is null
union all
-- The holder of a permit unblocks its key when it ends, and a rate says when it allows more. Otherwise only a rule that lets nothing start
-- is a reason to be blocked. Whatever ends that unblocks the key. Where more keys are unblocked than are read here, no admission pass runs, which is
-- another fault.
select 'jobs wait at ' || b.blocked_on || ', which no job holds and no unblock will open'
from (select blocked_on, substr(blocked_on, 3) as name,
             case left(blocked_on, 2) when 'q:' then 'queue' when 'k:' then 'kind' when 't:' then 'tenant' when 'l:' then 'key' else 'group' end as scope
      from (select distinct j.blocked_on from jobs j where j.blocked_on <> 'alone' and j.lock_owner is null) g) b
where (select s.ctid from {schema}.permit s where s.key collate "C" = b.blocked_on limit 1) is null
  and (select u.key from {schema}.usage u where u.key = b.blocked_on and u.n > 0 limit 1) is null
  and (select count(*) from unblocked) <= :pages * 100
  and (b.blocked_on in (select o.key from unblocked o)) is not true
  and not exists (select from {schema}.rule r
                  where r.scope = b.scope and (r.paused or r.running = 0)
                    and (r.name = b.name
                         or r.name = '*' and (r.paused or not exists (select from {schema}.rule own where own.scope = b.scope and own.name = b.name))))

-- name: overdue_unblocks
-- Unblocked keys that no admission pass has read since: few, and for a short time, while there are executors. Where there are none, each send of a job of a
-- group adds one, so they are counted up to a limit. The oldest come first in the table.
-- :limit::int8
select count(*) as unblocks, coalesce(max(extract(epoch from statement_timestamp() - o.unblock_at)::float8 * 1000000::float8) filter (where isfinite(o.unblock_at)), 0)::int8 as longest_us
from (select unblock_at from {schema}.unblock where unblock_at <= statement_timestamp() limit :limit) o

-- name: overdue_work
-- For how long, in microseconds, the first of each sort has been due: one index step each, and one for each running job that had a time to live.
select (select extract(epoch from statement_timestamp() - due_at)::float8 * 1000000::float8
        from {schema}.timer_job where due_at <= statement_timestamp() order by due_at limit 1)::int8 as timers,
       (extract(epoch from statement_timestamp())::float8 * 1000000::float8)::int8 - least(
           (select (options ->> 'expires'::text)::int8 from {schema}.job
            where options ? 'expires'::text and lock_owner is null order by (options ->> 'expires'::text)::int8 limit 1),
           (select (options ->> 'expires'::text)::int8 from {schema}.timer_job
            where options ? 'expires'::text order by (options ->> 'expires'::text)::int8 limit 1)) as expiry,
       (select extract(epoch from statement_timestamp() - lease_until)::float8 * 1000000::float8
        from {schema}.external_job where lease_until <= statement_timestamp() order by lease_until limit 1)::int8 as external

-- name: unreadable_jobs
-- How many of the newest dead letters have a reason that begins like this, by the index on the time of death.
-- :beginning::text, :limit::int8
select count(*) as looked_at, count(*) filter (where starts_with(d.reason, :beginning)) as jobs,
       (array_agg(d.id) filter (where starts_with(d.reason, :beginning)))[1] as example
from (
    select id, left(reason, 100) as reason from {schema}.dead_letter_job where dead_at <= 'infinity'::timestamptz order by dead_at desc limit :limit
) d
