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
