-- Makes timers and suspended jobs wait at once, whatever their due dates.
-- {filter_parameters}
with hurried as (
    delete from {schema}.timer_job
    where (:states::text[] is null or 'timer' = any (:states))
      and {filter}
    returning *
),
back as (
    delete from {schema}.suspended_job
    where (:states::text[] is null or 'suspended' = any (:states))
      and {filter}
    returning *
),
jobs as (
    insert into {schema}.job ({carried}, version, attempt, errors, options)
    select {carried}, version::int8 & 2147483647::int8, attempt, errors, options from hurried
    union all
    select {carried}, version::int8 & 2147483647::int8, attempt, errors, options from back
    on conflict (id) do nothing
)
select 'timer' as state, count(*), null::uuid[] as ids from hurried
union all
select 'suspended', count(*), null from back
