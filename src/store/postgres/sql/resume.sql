-- Makes suspended jobs wait again: for their due date if that is ahead, else to be run. A job of a group waits for admission: the trigger
-- on `job` ensures that.
-- {filter_parameters}
with back as (
    delete from {schema}.suspended_job
    where (:states::text[] is null or 'suspended' = any (:states))
      and {filter}
    returning *
),
timers as (
    insert into {schema}.timer_job ({carried}, version, attempt, errors, options, due_at)
    select {carried}, version::int8 & 2147483647::int8, attempt, errors, options, due_at from back where due_at > statement_timestamp()
    on conflict (id) do nothing
),
jobs as (
    insert into {schema}.job ({carried}, version, attempt, errors, options)
    select {carried}, version::int8 & 2147483647::int8, attempt, errors, options from back where due_at is null or due_at <= statement_timestamp()
    on conflict (id) do nothing
)
select 'suspended' as state, count(*), null::uuid[] as ids from back
