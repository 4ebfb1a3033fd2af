-- Changes jobs that wait, where they are. $11: rank; $12: attempts.
with waiting as (
    update {schema}.job
    set rank = coalesce($11, rank), max_attempts = coalesce($12, max_attempts)
    where lock_owner is null
      and ($2::text[] is null or 'waiting' = any ($2))
      and {filter}
    returning 1
),
blocked as (
    update {schema}.blocked_job
    set rank = coalesce($11, rank), max_attempts = coalesce($12, max_attempts)
    where ($2::text[] is null or 'blocked' = any ($2))
      and {filter}
    returning 1
)
select 'waiting' as state, count(*), null::uuid[] as ids from waiting
union all
select 'blocked', count(*), null from blocked
