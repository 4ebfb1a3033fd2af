-- name: count
-- Counts the jobs that an operation on these states would affect (dry run).
-- {filter_parameters}, :action_states::text[]
select state, count(*)
from {schema}.jobs
where (:states::text[] is null or state = any (:states))
  and {dead_filter}
  and state = any (:action_states)
group by state

-- name: count_some
-- Like `count`, for an operation on at most :limit of them, oldest first.
-- {filter_parameters}, :action_states::text[], :limit::int8
select state, count(*)
from (
    select state
    from {schema}.jobs
    where (:states::text[] is null or state = any (:states))
      and {dead_filter}
      and state = any (:action_states)
    order by seq
    limit :limit
) first
group by state

-- name: retry
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

-- name: retry_spread
-- Like `retry`, with their due dates spread over :spread_us microseconds, oldest first: :preceding come before these, of :total.
-- The chosen rows are found again by their ctid: one that was moved meanwhile is not there any more.
-- {filter_parameters}, :spread_us::int8, :preceding::int8, :total::int8
with chosen as materialized (
    select tid, dead,
           clock_timestamp() + :spread_us::float8 / :total::float8 * (:preceding + row_number() over (order by seq) - 1)::float8 * interval '1 microsecond' as due
    from (
        select ctid as tid, seq, true as dead
        from {schema}.dead_letter_job
        where (:states::text[] is null or 'dead' = any (:states))
          and {dead_filter}
        union all
        select ctid, seq, false
        from {schema}.timer_job
        where (:states::text[] is null or 'timer' = any (:states))
          and {filter}
    ) first
),
revived as (
    delete from {schema}.dead_letter_job d using chosen c where d.ctid = c.tid and c.dead returning d.*, c.due
),
-- A timer is never delayed by this.
advanced as (
    update {schema}.timer_job t set due_at = least(t.due_at, c.due)
    from chosen c where t.ctid = c.tid and not c.dead
    returning t.id
),
spread as (
    insert into {schema}.timer_job ({carried}, version, due_at, attempt, errors, options)
    select {carried}, version::int8 & 2147483647::int8, due, 0, errors,
           case when jsonb_typeof(options -> 'ttl'::text) = 'number'
                then options || jsonb_build_object('expires', (extract(epoch from due)::float8 * 1000000::float8)::int8 + {ttl})
                else options
           end
    from revived
    on conflict (id) do nothing
)
select 'dead' as state, count(*) from revived
union all
select 'timer', count(*) from advanced
