-- Removes jobs for good, including dead letters; running ones are left alone.
-- {filter_parameters}
with gone as (
    delete from {schema}.job
    where lock_owner is null
      and (:states::text[] is null or {state} = any (:states))
      and {filter}
    returning {state} as state
--{all}           , id, seq, kind, queue, attempt, created_at, claimed_at as started_at, lock_owner as node, options ->> 'tenant'::text as tenant
),
gone_timers as (
    delete from {schema}.timer_job
    where (:states::text[] is null or 'timer' = any (:states))
      and {filter}
    returning 'timer' as state
--{all}           , id, seq, kind, queue, attempt, created_at, null::timestamptz as started_at, null::int8 as node, options ->> 'tenant'::text as tenant
),
gone_suspended as (
    delete from {schema}.suspended_job
    where (:states::text[] is null or 'suspended' = any (:states))
      and {filter}
    returning 'suspended' as state
--{all}           , id, seq, kind, queue, attempt, created_at, null::timestamptz as started_at, null::int8 as node, options ->> 'tenant'::text as tenant
),
gone_dead as (
    delete from {schema}.dead_letter_job
    where (:states::text[] is null or 'dead' = any (:states))
      and {dead_filter}
    returning 'dead' as state
--{all}           , id, seq, kind, queue, attempt, created_at, null::timestamptz as started_at, null::int8 as node, options ->> 'tenant'::text as tenant
)
--{all} , remembered as (
--{all}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
--{all}     select id, seq, kind, queue, 'deleted', attempt, created_at, started_at, node, tenant
--{all}     from (select * from gone union all select * from gone_timers union all select * from gone_suspended union all select * from gone_dead) ended
--{all} )
select state, count(*), null::uuid[] as ids
from (select state from gone union all select state from gone_timers union all select state from gone_suspended
      union all select state from gone_dead) states
group by state
