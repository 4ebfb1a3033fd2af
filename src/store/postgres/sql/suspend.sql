-- Suspends jobs that do not run. A timer keeps its due date. Permits are released when the row is deleted, and so is the group, unless the
-- job is ordered.
-- {filter_parameters}
with gone as (
    delete from {schema}.job
    where lock_owner is null
      and (:states::text[] is null or {state} = any (:states))
      and {filter}
    returning *, {state} as state
),
gone_timers as (
    delete from {schema}.timer_job
    where (:states::text[] is null or 'timer' = any (:states))
      and {filter}
    returning *
),
moved as (
    insert into {schema}.suspended_job ({carried}, version, attempt, errors, options, due_at)
    select {carried}, version, attempt, errors, options, null::timestamptz from gone
    union all
    select {carried}, version, attempt, errors, options, due_at from gone_timers
    on conflict (id) do nothing
)
select state, count(*), array_agg(id) as ids from gone group by state
union all
select 'timer', count(*), array_agg(id) from gone_timers
