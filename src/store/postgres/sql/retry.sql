-- Dead letters (with fresh attempts) and timers wait again at once.
with revived as (
    delete from {schema}.dead_letter_job
    where ($1::uuid[] is null or id = any ($1))
      and ($2::text[] is null or 'dead' = any ($2))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
    returning *
),
hurried as (
    delete from {schema}.timer_job
    where ($1::uuid[] is null or id = any ($1))
      and ($2::text[] is null or 'timer' = any ($2))
      and ($3::text is null or queue = $3)
      and ($4::text is null or kind = $4)
    returning *
),
moved as (
    insert into {schema}.job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue,
                              payload, body, content_type, headers, errors, terms)
    select seq, version, created_at, id, 0, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors, {renewed}
    from revived
    union all
    select seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors, terms
    from hurried
    on conflict (id) do nothing
)
select 'dead' as state, count(*) from revived
union all
select 'timer', count(*) from hurried
