-- Makes suspended jobs wait again: for their due date if that is ahead, else to be run. A job of a group waits for admission: the trigger
-- on `job` ensures that.
with back as (
    delete from {schema}.suspended_job
    where ($2::text[] is null or 'suspended' = any ($2))
      and {filter}
    returning *
),
timers as (
    insert into {schema}.timer_job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors, options, due_at)
    select seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors, options, due_at from back where due_at > statement_timestamp()
    on conflict (id) do nothing
),
jobs as (
    insert into {schema}.job (seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors, options)
    select seq, version, created_at, id, attempt, max_attempts, rank, kind, queue, payload, body, content_type, headers, errors, options from back where due_at is null or due_at <= statement_timestamp()
    on conflict (id) do nothing
)
select 'suspended' as state, count(*), null::uuid[] as ids from back
