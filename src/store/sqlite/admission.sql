-- name: admit_check
-- Runs on a reader: whether an admission pass has work, and when it will have some.
select exists (select 1 from jobwright_unblock where unblock_at <= :now) as unblocks,
       exists (select 1 from jobwright_rule where paused or running is not null or rate is not null) as limited,
       (select min(unblock_at) from jobwright_unblock where unblock_at > :now) as next_at,
       (select min(aging) from jobwright_rule) as aging

-- name: take_unblocks
-- Takes a batch of unblocks; the caller sums up the numbers of each key.
delete from jobwright_unblock
where rowid in (select rowid from jobwright_unblock where unblock_at <= :now order by unblock_at limit :limit)
returning key, n

-- name: blocked_shares
-- The shares that are blocked on a key, found by stepping through the index, once per share. Suspects (`suspects`) wait for no key that a pass could
-- free, whoever writes an unblock of theirs.
with recursive step (share) as (
    select min(share) from jobwright_job where blocked_on = :blocked_on and :blocked_on <> 'alone'
    union all
    select (select min(share) from jobwright_job where blocked_on = :blocked_on and share > step.share) from step where step.share is not null
)
select share from step where share is not null

-- name: blocked_on_key
-- The best jobs of one share that are blocked on a key, from the index.
select id, seq, rank, kind, queue, options, admitted, blocked_on, share
from jobwright_job
where blocked_on = :blocked_on and share = :share
order by rank, seq
limit :limit

-- name: holder_blocked_on_key
-- An ordered job that is blocked on the group it holds: it is the only one that can start, even if others are better. The job is looked up by its id,
-- whatever the planner believes about the number of jobs that are blocked on the key.
select b.id, b.seq, b.rank, b.kind, b.queue, b.options, b.admitted, b.blocked_on, b.share
from jobwright_permit s
cross join jobwright_job b on b.id = s.job_id and +b.blocked_on = s.key
where s.key = :blocked_on

-- name: covered_waiting
-- The first waiting rows of a queue that a rule covers, among the first :ahead (claims scan the same ones). A paused queue is left alone:
-- no claim scans it.
select id, seq, rank, kind, queue, options, 0 as admitted, '' as blocked_on, '' as share
from (
    select *
    from jobwright_job
    where state = 'waiting' and queue = :queue and not admitted
      and (:kinds is null or kind in (select value from json_each(:kinds)))
      and {queue_open}
    order by rank, seq
    limit :ahead
) as job
where exists (select 1 from jobwright_rule r where (r.paused or r.running is not null or r.rate is not null) and {covers})
limit :limit

-- name: permits_of_key
-- How many jobs hold the key; one index lookup.
select count(*) from jobwright_permit where key = :key

-- name: permits_of_job
-- The permits that an ordered job holds already.
select key from jobwright_permit where job_id = :id

-- name: starts_of_rate
-- The number of starts within the period, and the time of the first one.
select coalesce(sum(n), 0) as n, coalesce(min(at), :now) as oldest from jobwright_rate_log where key = :key and at > :after

-- name: admit
-- A blocked job becomes one that waits, in its place. The delivery of one that waited, because a rule covers it, may already have come and gone, so the
-- row is no longer hidden for it.
update jobwright_job set state = 'waiting', blocked_on = null, share = '', admitted = 1, visible_at = null where id = :id returning queue

-- name: block
-- From now on the job is blocked on this key, whether it was blocked before or waited.
update jobwright_job
set state = 'blocked', blocked_on = :blocked_on, share = :share, admitted = max(admitted, :hold), visible_at = null
where id = :id

-- name: add_starts
-- Adds to the starts of the same interval, which began at :since. All of them count until the last one is too old.
update jobwright_rate_log
set n = n + :n, at = :now
where rowid = (select rowid from jobwright_rate_log where key = :key and at >= :since order by at desc limit 1)

-- name: count_starts
-- Records the first starts of an interval.
insert into jobwright_rate_log (key, at, n) values (:key, :now, :n)

-- name: write_unblock
-- An earlier unblock of the key says the same.
insert into jobwright_unblock (key, unblock_at, n)
select :key, :at, :n
where :at = 0 or not exists (select 1 from jobwright_unblock where key = :key and unblock_at <= :at)

-- name: prune_rate_log
-- Removes starts that are older than the period of their key's rate (that of its own rule, or else of the rule for all), and those of keys
-- without a rate.
with rules as materialized (
    select case scope when 'key' then 'l:' else substr(scope, 1, 1) || ':' end as prefix, name, coalesce(period, 0) as period
    from jobwright_rule
)
delete from jobwright_rate_log
where rowid in (
    select l.rowid
    from jobwright_rate_log l
    left join rules own on own.prefix || own.name = l.key
    left join rules every on every.prefix = substr(l.key, 1, 2) and every.name = '*'
    where l.at < :now - 60000000 - coalesce(own.period, every.period, 0)
    limit :limit
)

-- name: permit_faults
-- Conditions that must never hold: see `Operator::permit_faults`. Looks at :limit rows of each sort: of jobs at the newest, of blocked jobs at the first keys,
-- which are found by stepping from one to the next.
with recursive keys(key) as (
    select * from (select blocked_on from jobwright_job where blocked_on is not null order by blocked_on limit 1)
    union all
    select (select j.blocked_on from jobwright_job j where j.blocked_on > k.key order by j.blocked_on limit 1) from keys k where k.key is not null
    limit :limit
)
select 'the permit ' || s.key || ' is held by ' || hex(s.job_id) || ', which is gone'
from (select job_id, key from jobwright_permit limit :limit) s
where {orphaned}
union all
select 'the group ' || key || ' is held ' || count(*) || ' times'
from (select key from jobwright_permit where key >= 'g:' and key < 'g;' order by key limit :limit) group by key having count(*) > 1
union all
select 'the job ' || hex(j.id) || ' of group ' || (j.options ->> 'group') || ' was admitted and does not hold it'
from (select id, options from jobwright_job where admitted order by seq desc limit :limit) j
where j.options ->> 'group' is not null
  and not exists (select 1 from jobwright_permit s where s.job_id = j.id and s.key = 'g:' || (j.options ->> 'group'))
union all
select 'the job ' || hex(j.id) || ' of group ' || (j.options ->> 'group') || ' is among the jobs that can start, and was not admitted'
from (select * from (select id, options, admitted, state, lock_owner from jobwright_job order by seq desc limit :limit) where state = 'waiting'
      union all select id, options, admitted, state, lock_owner from jobwright_job where lock_owner is not null) j
where j.options ->> 'group' is not null and not j.admitted
union all
-- The holder of a permit unblocks its key when it ends, and a rate says when it allows more. Otherwise only a rule that lets nothing start
-- is a reason to be blocked. Whatever ends that unblocks the key.
select 'jobs wait at ' || b.blocked_on || ', which no job holds and no unblock will open'
from (select key as blocked_on, substr(key, 3) as name,
             case substr(key, 1, 2) when 'q:' then 'queue' when 'k:' then 'kind' when 't:' then 'tenant' when 'l:' then 'key' else 'group' end as scope
      from keys where key <> 'alone') b
where {unopened}

-- name: is_small
-- Whether none of these tables has more rows than that: then the checks read all of them.
select (select count(*) from (select 1 from jobwright_job limit :limit + 1)) <= :limit
   and (select count(*) from (select 1 from jobwright_permit limit :limit + 1)) <= :limit
   and (select count(*) from (select 1 from jobwright_result limit :limit + 1)) <= :limit
   and (select count(*) from (select 1 from jobwright_progress limit :limit + 1)) <= :limit
       as small

-- name: overdue_unblocks
-- Unblocked keys that no admission pass has read since: few, and for a short time, while there are executors. Where there are none, each send of a job of a
-- group adds one, so they are counted up to a limit. An unblock without a time (0) took effect at once, and its age is unknown.
select count(*) as unblocks, coalesce(max(:now - unblock_at) filter (where unblock_at > 0), 0) as longest
from (select unblock_at from jobwright_unblock where unblock_at <= :now order by unblock_at limit :limit)
