-- Makes dead letters (with fresh attempts) and timers wait again at once.
with revived as (
    delete from {schema}.dead_letter_job
    where ($2::text[] is null or 'dead' = any ($2))
      and {dead_filter}
    returning *
),
hurried as (
    delete from {schema}.timer_job
    where ($2::text[] is null or 'timer' = any ($2))
      and {filter}
    returning *
),
moved as (
    insert into {schema}.job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue,
                              payload, body, content_type, headers, errors, options)
    select seq, version, created_at, id, 0, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors, {renewed}
    from revived
    union all
    select seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors, options
    from hurried
    on conflict (id) do nothing
)
select 'dead' as state, count(*) from revived
union all
select 'timer', count(*) from hurried
