-- name: status_queues
-- Counts of all queues in one pass over each table.
select queue,
       sum(waiting)::int8 as waiting, sum(running)::int8 as running, sum(timer)::int8 as timer, sum(overdue)::int8 as overdue,
       sum(suspended)::int8 as suspended, sum(dead)::int8 as dead, sum(external)::int8 as external, sum(blocked)::int8 as blocked,
       extract(epoch from clock_timestamp() - min(oldest))::float8 as oldest_waiting_seconds,
       extract(epoch from clock_timestamp() - min(due))::float8 as oldest_overdue_seconds
from (
    select queue, count(*) filter (where {state} = 'waiting') as waiting, count(*) filter (where lock_owner is not null) as running,
           0 as timer, 0 as overdue, 0 as suspended, 0 as dead, 0 as external, count(*) filter (where {state} = 'blocked') as blocked,
           min(created_at) filter (where {state} = 'waiting' and isfinite(created_at)) as oldest, null::timestamptz as due
    from {schema}.job group by queue
    union all
    select queue, 0, 0, count(*), count(*) filter (where due_at < clock_timestamp()), 0, 0, 0, 0, null,
           min(due_at) filter (where due_at < clock_timestamp() and isfinite(due_at))
    from {schema}.timer_job group by queue
    union all
    select queue, 0, 0, 0, 0, count(*), 0, 0, 0, null, null from {schema}.suspended_job group by queue
    union all
    select queue, 0, 0, 0, 0, 0, count(*), 0, 0, null, null from {schema}.dead_letter_job group by queue
    union all
    select queue, 0, 0, 0, 0, 0, 0, count(*), 0, null, null from {schema}.external_job group by queue
) counts
group by queue
order by queue

-- name: status_nodes
-- All nodes, with the number of jobs that they own.
select n.id, n.name, n.host, n.pid, n.started_at, extract(epoch from n.expires_at - clock_timestamp())::float8 as lease_seconds_left,
       n.dead_at is not null as dead, count(j.lock_owner) as running, n.broker, n.serves, n.left_alone
from {schema}.node n
left join (select lock_owner from {schema}.job where lock_owner is not null) j on j.lock_owner = n.id
group by n.id
order by n.id

-- name: list
-- A page of jobs that match a filter, in the order in which they were sent. Each table returns its share of the page by its index on seq.
-- `job` has no such index (it would cost every send), but one on (queue, rank, seq) of rows that are not blocked. The pairs of queue and
-- rank are few: they are found by stepping from one to the next, and each returns its share of the page in order. Blocked rows are found in
-- the same way, queue by queue.
-- {filter_parameters}, :first::int8, :limit::int8
with recursive lanes as (
    select f.queue, f.rank
    from (
        select queue, rank
        from {schema}.job
        where queue >= coalesce(:queue::text, '')
          and blocked_on is null
          and (:states::text[] is null or :states operator(pg_catalog.&&) array['waiting', 'running'])
        order by queue, rank
        limit 1
    ) f
    where :queue::text is null or f.queue = :queue
    union all
    select n.queue, n.rank
    from lanes l
    cross join lateral (
        select j.queue, j.rank
        from {schema}.job j
        where (j.queue, j.rank) > (l.queue, l.rank) and j.blocked_on is null
        order by j.queue, j.rank
        limit 1
    ) n
    where :queue::text is null or n.queue = :queue
),
blocked_queues as (
    select f.queue
    from (
        select queue
        from {schema}.job
        where queue >= coalesce(:queue::text, '')
          and blocked_on > ''
          and (:states::text[] is null or :states operator(pg_catalog.&&) array['blocked', 'running'])
        order by queue
        limit 1
    ) f
    where :queue::text is null or f.queue = :queue
    union all
    select n.queue
    from blocked_queues b
    cross join lateral (
        select j.queue
        from {schema}.job j
        where j.queue > b.queue and j.blocked_on > ''
        order by j.queue
        limit 1
    ) n
    where :queue::text is null or n.queue = :queue
)
(
    select p.*
    from lanes l
    cross join lateral (
        select id, seq, {state} as state, kind, queue, -greatest(rank, (-32767)::int2) as priority, attempt, max_attempts, created_at, null::timestamptz as due_at, lock_owner as owner,
        claimed_at as claimed_at, left(errors -> -1 ->> 'error'::text, 2000) as last_error
        from (select * from {schema}.job i where i.queue = l.queue and i.rank = l.rank and i.seq >= :first and i.blocked_on is null) j
        where (:states::text[] is null or {state} = any (:states))
          and {filter}
        order by seq
        limit :limit
    ) p
    order by p.seq
    limit :limit
)
union all
(
    select p.*
    from blocked_queues b
    cross join lateral (
        select id, seq, {state} as state, kind, queue, -greatest(rank, (-32767)::int2) as priority, attempt, max_attempts, created_at, null::timestamptz as due_at, lock_owner as owner,
        claimed_at as claimed_at, left(errors -> -1 ->> 'error'::text, 2000) as last_error
        from (select * from {schema}.job i where i.queue = b.queue and i.seq >= :first and i.blocked_on > '') j
        where (:states::text[] is null or {state} = any (:states))
          and {filter}
        order by seq
        limit :limit
    ) p
    order by p.seq
    limit :limit
)
union all
(
    select id, seq, 'external' as state, kind, queue, -greatest(rank, (-32767)::int2) as priority, attempt, max_attempts, created_at, null::timestamptz as due_at, null::int8 as owner,
        null::timestamptz as claimed_at, left(errors -> -1 ->> 'error'::text, 2000) as last_error
    from {schema}.external_job
    where (:states::text[] is null or 'external' = any (:states))
      and {filter}
      and seq >= :first
    order by seq
    limit :limit
)
union all
(
    select id, seq, 'timer' as state, kind, queue, -greatest(rank, (-32767)::int2) as priority, attempt, max_attempts, created_at, due_at as due_at, null::int8 as owner,
        null::timestamptz as claimed_at, left(errors -> -1 ->> 'error'::text, 2000) as last_error
    from {schema}.timer_job
    where (:states::text[] is null or 'timer' = any (:states))
      and {filter}
      and seq >= :first
    order by seq
    limit :limit
)
union all
(
    select id, seq, 'suspended' as state, kind, queue, -greatest(rank, (-32767)::int2) as priority, attempt, max_attempts, created_at, due_at as due_at, null::int8 as owner,
        null::timestamptz as claimed_at, left(errors -> -1 ->> 'error'::text, 2000) as last_error
    from {schema}.suspended_job
    where (:states::text[] is null or 'suspended' = any (:states))
      and {filter}
      and seq >= :first
    order by seq
    limit :limit
)
union all
(
    select id, seq, 'dead' as state, kind, queue, -greatest(rank, (-32767)::int2) as priority, attempt, max_attempts, created_at, null::timestamptz as due_at, null::int8 as owner,
        null::timestamptz as claimed_at, left(errors -> -1 ->> 'error'::text, 2000) as last_error
    from {schema}.dead_letter_job
    where (:states::text[] is null or 'dead' = any (:states))
      and {dead_filter}
      and seq >= :first
    order by seq
    limit :limit
)
order by seq
limit :limit

-- name: list_ids
-- Jobs by their ids, in the order in which they were sent: each table has an index on ids. See `list`.
-- {filter_parameters}, :first::int8, :limit::int8
select id, seq, state, kind, queue, priority, attempt, max_attempts, created_at, due_at, owner, claimed_at,
       left(errors -> -1 ->> 'error'::text, 2000) as last_error
from {schema}.jobs
where (:states::text[] is null or state = any (:states))
  and {dead_filter}
  and seq >= :first
order by seq
limit :limit

-- name: show
-- Everything about one job, in whichever table it is.
-- :id::uuid
select id, seq, state, kind, queue, priority, attempt, max_attempts, created_at, due_at, owner, claimed_at,
       left(errors -> -1 ->> 'error'::text, 2000) as last_error,
       version, dead_at, reason, payload, body, content_type, headers, errors, options, blocked_on
from {schema}.jobs
where id = :id

-- name: show_bare
-- Like `show`, without the sender's data, which can't be read.
-- :id::uuid
select id, seq, state, kind, queue, priority, attempt, max_attempts, created_at, due_at, owner, claimed_at,
       left(errors -> -1 ->> 'error'::text, 2000) as last_error,
       version, dead_at, reason, null::jsonb as payload, null::bytea as body, null::text as content_type, null::jsonb as headers, errors,
       null::jsonb as options, blocked_on
from {schema}.jobs
where id = :id

-- name: dead_letter_groups
-- The newest dead letters that match, with equal reasons already counted here. The caller merges reasons that differ only in a number. Only
-- the first line of a reason is sent, and no more of it than is needed to tell reasons apart.
-- {filter_parameters}, :limit::int8
select kind, queue, reason, count(*), min(dead_at) as first, max(dead_at) as last, (array_agg(id order by dead_at desc))[1] as example
from (
    select kind, queue, left(split_part(ltrim(reason, E' \t\r\n'), E'\n', 1), 300) as reason, dead_at, id
    from {schema}.dead_letter_job
    where (:states::text[] is null or 'dead' = any (:states))
      and {dead_filter}
    order by dead_at desc
    limit :limit
) newest
group by kind, queue, reason

-- name: history
-- Newest first, through the index on the end, or on the job.
-- :id::uuid, :queue::text, :kind::text, :outcomes::text[], :error::text, :since::timestamptz, :until::timestamptz,
-- :behind::timestamptz, :behind_seq::int8, :limit::int8
select job_id, seq, kind, queue, outcome, attempt, created_at, started_at, ended_at, node, tenant, error
from {schema}.history
where (:id::uuid is null or job_id = :id)
  and (:queue::text is null or queue = :queue)
  and (:kind::text is null or kind = :kind)
  and (:outcomes::text[] is null or outcome = any (:outcomes))
  and (:error::text is null or strpos(error, :error) > 0)
  and (:since::timestamptz is null or ended_at >= :since)
  and (:until::timestamptz is null or ended_at < :until)
  and (:behind::timestamptz is null or (ended_at, seq) < (:behind, :behind_seq))
order by ended_at desc, seq desc
limit :limit

-- name: result
-- An expired result is not returned, whether it was pruned or not.
-- :id::uuid
select kind, payload, created_at, expires_at from {schema}.result where job_id = :id and expires_at > clock_timestamp()

-- name: audit
-- Newest first.
-- :before::int8, :who::text, :action::text, :limit::int8
select id, at, who, action, what, counts
from {schema}.audit
where (:before::int8 is null or id < :before)
  and (:who::text is null or who = :who)
  and (:action::text is null or action = :action)
order by id desc
limit :limit

-- name: permit_faults
-- Conditions that must never hold among committed rows: see `Operator::permit_faults`. One statement, so that it sees one snapshot.
select 'the permit ' || s.key || ' is held by ' || s.job_id::text || ', which is gone'
from {schema}.permit s
where not exists (select from {schema}.job j where j.id = s.job_id and (j.admitted or j.blocked_on is not null and j.options ? 'ordered'::text))
  and not exists (select from {schema}.external_job j where j.id = s.job_id and j.admitted)
  and not exists (select from {schema}.timer_job j where j.id = s.job_id and j.options ? 'ordered'::text)
  and not exists (select from {schema}.suspended_job j where j.id = s.job_id and j.options ? 'ordered'::text)
  and not exists (select from {schema}.dead_letter_job j where j.id = s.job_id and j.options ? 'ordered'::text)
  and not exists (select from {schema}.terminating_handler e where e.holder = s.job_id)
  and not exists (select from {schema}.node n where n.id = s.node)
union all
select 'the group ' || key || ' is held ' || count(*)::text || ' times' from {schema}.permit where key like 'g:%' group by key having count(*) > 1
union all
select 'the job ' || j.id::text || ' of group ' || (j.options ->> 'group'::text) || ' was admitted and does not hold it'
from (select id, options from {schema}.job where admitted
      union all select id, options from {schema}.external_job where admitted) j
where j.options ? 'group'::text
  and not exists (select from {schema}.permit s where s.job_id = j.id and s.key = 'g:' || (j.options ->> 'group'::text))
union all
select 'the job ' || j.id::text || ' of group ' || (j.options ->> 'group'::text) || ' is among the jobs that can start, and was not admitted'
from {schema}.job j
where j.options ? 'group'::text and not j.admitted and j.blocked_on is null
  -- It was parked, and no claim takes it.
  and j.queue not like 'unreadable:%'
union all
select 'the job ' || j.id::text || ' behind ' || j.blocked_on || ' runs, and its node ' || j.lock_owner::text || ' does not hold the group'
from {schema}.job j
where j.blocked_on <> 'alone' and j.lock_owner is not null
  and not exists (select from {schema}.permit s where s.key collate "C" = j.blocked_on and s.node = j.lock_owner)
union all
-- The holder of a permit unblocks its key when it ends, and a rate says when it allows more. Otherwise only a rule that lets nothing start
-- is a reason to be blocked. Whatever ends that unblocks the key.
select 'jobs wait at ' || b.blocked_on || ', which nobody holds and nobody will open'
from (select blocked_on, substr(blocked_on, 3) as name,
             case left(blocked_on, 2) when 'q:' then 'queue' when 'k:' then 'kind' when 't:' then 'tenant' when 'l:' then 'key' else 'group' end as scope
      from (select distinct blocked_on from {schema}.job where blocked_on <> 'alone' and lock_owner is null) g) b
where not exists (select from {schema}.permit s where s.key collate "C" = b.blocked_on)
  and not exists (select from {schema}.usage u where u.key = b.blocked_on and u.n > 0)
  and not exists (select from {schema}.unblock o where o.key = b.blocked_on)
  and not exists (select from {schema}.rule r
                  where r.scope = b.scope and (r.paused or r.running = 0)
                    and (r.name = b.name
                         or r.name = '*' and (r.paused or not exists (select from {schema}.rule own where own.scope = b.scope and own.name = b.name))))

-- name: overdue_unblocks
-- Unblocked keys that no admission pass has read since: few, and for a short time, while there are executors.
select count(*) as unblocks, coalesce(max(extract(epoch from statement_timestamp() - unblock_at)::float8 * 1000000::float8) filter (where isfinite(unblock_at)), 0)::int8 as longest_us
from {schema}.unblock
where unblock_at <= statement_timestamp()
