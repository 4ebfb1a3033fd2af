-- name: choose
-- Selects the jobs that an operator means, oldest first, at most :limit. The action is applied by these ids, some thousands at a time.
-- {filter_parameters}, :action_states::text[], :limit::int8
select id
from {schema}.jobs
where state = any (:action_states)
  and (:states::text[] is null or state = any (:states))
  and {dead_filter}
order by seq
limit :limit

-- name: suspend
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

-- name: resume
-- Makes suspended jobs wait again: for their due date if that is ahead, else to be run. A job of a group waits for admission: the trigger
-- on `job` ensures that.
-- {filter_parameters}
with back as (
    delete from {schema}.suspended_job
    where (:states::text[] is null or 'suspended' = any (:states))
      and {filter}
    returning *
),
timers as (
    insert into {schema}.timer_job ({carried}, version, attempt, errors, options, due_at)
    select {carried}, version::int8 & 2147483647::int8, attempt, errors, options, due_at from back where due_at > statement_timestamp()
    on conflict (id) do nothing
),
jobs as (
    insert into {schema}.job ({carried}, version, attempt, errors, options)
    select {carried}, version::int8 & 2147483647::int8, attempt, errors, options from back where due_at is null or due_at <= statement_timestamp()
    on conflict (id) do nothing
)
select 'suspended' as state, count(*), null::uuid[] as ids from back

-- name: run_now
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

-- name: delete
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

-- name: cancel
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
    returning 'external' as state, id, version, lease_until, admitted, worker
--{all}           , seq, kind, queue, attempt, created_at, handed_at as started_at, options ->> 'tenant'::text as tenant
),
still_running as (
    insert into {schema}.terminating_handler (job_id, version, node, until, worker)
    select id, version, node, null::timestamptz, null::text from gone where state = 'running' and admitted
    union all
    select id, version, null, lease_until, worker from gone_external where admitted or worker is not null
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

-- name: change_idle
-- Changes jobs that neither wait nor run, in place. The due date is a timestamp (:to_due) or microseconds from now (:to_delay_us). A dead
-- letter has none.
-- {filter_parameters}, :to_rank::int2, :to_due::timestamptz, :to_delay_us::int8, :to_queue::text, :to_attempts::int4
with timers as (
    update {schema}.timer_job t
    set rank = coalesce(:to_rank, t.rank), max_attempts = coalesce(:to_attempts, t.max_attempts), queue = coalesce(:to_queue, t.queue),
        options = case when t.queue <> :to_queue and (t.options ? 'sentTo'::text) is not true
                       then coalesce(t.options, '{}'::jsonb) || jsonb_build_object('sentTo', t.queue) else t.options end,
        -- Moving to another queue invalidates earlier deliveries.
        version = (t.version + case when t.queue <> :to_queue then 1 else 0 end) & 2147483647::int8,
        due_at = coalesce(:to_due, statement_timestamp() + :to_delay_us::float8 * interval '1 microsecond', t.due_at)
    where (:states::text[] is null or 'timer' = any (:states))
      and {filter}
    returning 1
),
suspended as (
    update {schema}.suspended_job t
    set rank = coalesce(:to_rank, t.rank), max_attempts = coalesce(:to_attempts, t.max_attempts), queue = coalesce(:to_queue, t.queue),
        options = case when t.queue <> :to_queue and (t.options ? 'sentTo'::text) is not true
                       then coalesce(t.options, '{}'::jsonb) || jsonb_build_object('sentTo', t.queue) else t.options end,
        -- Moving to another queue invalidates earlier deliveries.
        version = (t.version + case when t.queue <> :to_queue then 1 else 0 end) & 2147483647::int8,
        due_at = coalesce(:to_due, statement_timestamp() + :to_delay_us::float8 * interval '1 microsecond', t.due_at)
    where (:states::text[] is null or 'suspended' = any (:states))
      and {filter}
    returning 1
),
dead as (
    update {schema}.dead_letter_job t
    set rank = coalesce(:to_rank, t.rank), max_attempts = coalesce(:to_attempts, t.max_attempts), queue = coalesce(:to_queue, t.queue),
        options = case when t.queue <> :to_queue and (t.options ? 'sentTo'::text) is not true
                       then coalesce(t.options, '{}'::jsonb) || jsonb_build_object('sentTo', t.queue) else t.options end,
        -- Moving to another queue invalidates earlier deliveries.
        version = (t.version + case when t.queue <> :to_queue then 1 else 0 end) & 2147483647::int8
    where coalesce(:to_rank::text, :to_queue, :to_attempts::text) is not null
      and (:states::text[] is null or 'dead' = any (:states))
      and {dead_filter}
    returning 1
)
select 'timer' as state, count(*), null::uuid[] as ids from timers
union all
select 'suspended', count(*), null from suspended
union all
select 'dead', count(*), null from dead

-- name: change_waiting
-- Changes waiting jobs in place. :to_rank: rank; :to_attempts: attempts.
-- {filter_parameters}, :to_rank::int2, :to_attempts::int4
with changed as (
    update {schema}.job
    set rank = coalesce(:to_rank, rank), max_attempts = coalesce(:to_attempts, max_attempts)
    where lock_owner is null
      and (:states::text[] is null or {state} = any (:states))
      and {filter}
    returning {state} as state
)
select state, count(*), null::uuid[] as ids from changed group by state

-- name: evict
-- Declares a node dead by hand. This waits for nothing: if a claim of the node is in flight, a monitor releases its jobs once it is
-- committed.
-- :node::int8
update {schema}.node set dead_at = coalesce(dead_at, clock_timestamp()), evicted = evicted or dead_at is null
where id = :node
returning id
