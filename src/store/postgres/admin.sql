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

-- name: job_state
-- The state of a job, in whichever table it is: asked again and again by those who wait for its end.
-- :id::uuid
select state
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
