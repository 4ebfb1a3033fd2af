-- Removes live jobs. The row of a running one goes too, also in the hands of an external worker: its outcome will be refused.
with gone as (
    delete from {schema}.job
    where ($2::text[] is null or case when lock_owner is null then 'waiting' else 'running' end = any ($2))
      and {filter}
    returning case when lock_owner is null then 'waiting' else 'running' end as state
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
gone_external as (
    delete from {schema}.external_job
    where ($2::text[] is null or 'external' = any ($2))
      and {filter}
    returning 'external' as state
)
select state, count(*)
from (select state from gone union all select state from gone_timers union all select state from gone_blocked
      union all select state from gone_suspended union all select state from gone_external) states
group by state
