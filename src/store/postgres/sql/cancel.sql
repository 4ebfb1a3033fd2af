-- Removes live jobs. The row of a running one goes too, also in the hands of an external worker: its outcome will be refused.
with gone as (
    delete from {schema}.job
    where ($2::text[] is null or case when lock_owner is null then 'waiting' else 'running' end = any ($2))
      and {filter}
    returning case when lock_owner is null then 'waiting' else 'running' end as state
--{all}           , id, seq, kind, queue, attempt, created_at, claimed_at as started_at, lock_owner as node, terms ->> 'tenant' as tenant
),
gone_blocked as (
    delete from {schema}.blocked_job
    where ($2::text[] is null or 'blocked' = any ($2))
      and {filter}
    returning 'blocked' as state
--{all}           , id, seq, kind, queue, attempt, created_at, null::timestamptz as started_at, null::int8 as node, terms ->> 'tenant' as tenant
),
gone_timers as (
    delete from {schema}.timer_job
    where ($2::text[] is null or 'timer' = any ($2))
      and {filter}
    returning 'timer' as state
--{all}           , id, seq, kind, queue, attempt, created_at, null::timestamptz as started_at, null::int8 as node, terms ->> 'tenant' as tenant
),
gone_suspended as (
    delete from {schema}.suspended_job
    where ($2::text[] is null or 'suspended' = any ($2))
      and {filter}
    returning 'suspended' as state
--{all}           , id, seq, kind, queue, attempt, created_at, null::timestamptz as started_at, null::int8 as node, terms ->> 'tenant' as tenant
),
gone_external as (
    delete from {schema}.external_job
    where ($2::text[] is null or 'external' = any ($2))
      and {filter}
    returning 'external' as state
--{all}           , id, seq, kind, queue, attempt, created_at, handed_at as started_at, 0::int8 as node, terms ->> 'tenant' as tenant
)
--{all} , remembered as (
--{all}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
--{all}     select id, seq, kind, queue, 'cancelled', attempt, created_at, started_at, node, tenant
--{all}     from (select * from gone union all select * from gone_blocked union all select * from gone_timers union all select * from gone_suspended union all select * from gone_external) ended
--{all} )
select state, count(*), null::uuid[] as ids
from (select state from gone union all select state from gone_timers union all select state from gone_blocked
      union all select state from gone_suspended union all select state from gone_external) states
group by state
