-- Makes dead letters (with fresh attempts) and timers wait again at once.
-- {filter_parameters}
with revived as (
    delete from {schema}.dead_letter_job
    where (:states::text[] is null or 'dead' = any (:states))
      and {dead_filter}
    returning *
),
hurried as (
    delete from {schema}.timer_job
    where (:states::text[] is null or 'timer' = any (:states))
      and {filter}
    returning *
),
moved as (
    insert into {schema}.job ({carried}, version, attempt, errors, options)
    select {carried}, version::int8 & 2147483647::int8, 0, errors, {renewed}
    from revived
    union all
    select {carried}, version::int8 & 2147483647::int8, attempt, errors, options
    from hurried
    on conflict (id) do nothing
)
select 'dead' as state, count(*) from revived
union all
select 'timer', count(*) from hurried
