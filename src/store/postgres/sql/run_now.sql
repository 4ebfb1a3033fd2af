-- Makes timers and suspended jobs wait at once, whatever their due dates.
with hurried as (
    delete from {schema}.timer_job
    where ($2::text[] is null or 'timer' = any ($2))
      and {filter}
    returning *
),
back as (
    delete from {schema}.suspended_job
    where ($2::text[] is null or 'suspended' = any ($2))
      and {filter}
    returning *
),
jobs as (
    insert into {schema}.job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors, options)
    select seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors, options from hurried
    union all
    select seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors, options from back
    on conflict (id) do nothing
)
select 'timer' as state, count(*), null::uuid[] as ids from hurried
union all
select 'suspended', count(*), null from back
