-- Removes live jobs. The rows of running and handed-out jobs go too, so their outcomes will be refused.
-- What such a job holds stays taken until its handler has ended. A trigger of `terminating_handler` transfers it before the triggers of the
-- job's table, which run at the end of the statement, look for something to release.
-- {filter_parameters}
with gone as (
    delete from {schema}.job
    where (:states::text[] is null or {state} = any (:states))
      and {filter}
    returning {state} as state, id, version, lock_owner as node, admitted
--{all}           , seq, kind, queue, attempt, created_at, claimed_at as started_at, options ->> 'tenant'::text as tenant
),
gone_timers as (
    delete from {schema}.timer_job
    where (:states::text[] is null or 'timer' = any (:states))
      and {filter}
    returning 'timer' as state
--{all}           , id, seq, kind, queue, attempt, created_at, options ->> 'tenant'::text as tenant
),
gone_suspended as (
    delete from {schema}.suspended_job
    where (:states::text[] is null or 'suspended' = any (:states))
      and {filter}
    returning 'suspended' as state
--{all}           , id, seq, kind, queue, attempt, created_at, options ->> 'tenant'::text as tenant
),
gone_external as (
    delete from {schema}.external_job
    where (:states::text[] is null or 'external' = any (:states))
      and {filter}
    returning 'external' as state, id, version, lease_until, admitted
--{all}           , seq, kind, queue, attempt, created_at, handed_at as started_at, options ->> 'tenant'::text as tenant
),
still_running as (
    insert into {schema}.terminating_handler (job_id, version, node, until)
    select id, version, node, null::timestamptz from gone where state = 'running' and admitted
    union all
    select id, version, null, lease_until from gone_external where admitted
)
--{all} , remembered as (
--{all}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
--{all}     select id, seq, kind, queue, 'cancelled', attempt, created_at, started_at, node, tenant
--{all}     from (select id, seq, kind, queue, attempt, created_at, started_at, node, tenant from gone
--{all}           union all select id, seq, kind, queue, attempt, created_at, null, null, tenant from gone_timers
--{all}           union all select id, seq, kind, queue, attempt, created_at, null, null, tenant from gone_suspended
--{all}           union all select id, seq, kind, queue, attempt, created_at, started_at, 0, tenant from gone_external) ended
--{all} )
select state, count(*), null::uuid[] as ids
from (select state from gone union all select state from gone_timers union all select state from gone_suspended
      union all select state from gone_external) states
group by state
