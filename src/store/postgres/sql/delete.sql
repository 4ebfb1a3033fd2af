-- Removes jobs for good, dead letters too; running ones are left alone.
with gone as (
    delete from {schema}.job
    where lock_owner is null
      and ($2::text[] is null or 'waiting' = any ($2))
      and {filter}
    returning 'waiting' as state
),
gone_blocked as (
    delete from {schema}.blocked_job
    where ($2::text[] is null or 'blocked' = any ($2))
      and {filter}
    returning 'blocked' as state
),
gone_timers as (
    delete from {schema}.timer_job
    where ($2::text[] is null or 'timer' = any ($2))
      and {filter}
    returning 'timer' as state
),
gone_suspended as (
    delete from {schema}.suspended_job
    where ($2::text[] is null or 'suspended' = any ($2))
      and {filter}
    returning 'suspended' as state
),
gone_dead as (
    delete from {schema}.dead_letter_job
    where ($2::text[] is null or 'dead' = any ($2))
      and {dead_filter}
    returning 'dead' as state
)
select state, count(*)
from (select state from gone union all select state from gone_timers union all select state from gone_blocked
      union all select state from gone_suspended union all select state from gone_dead) states
group by state
