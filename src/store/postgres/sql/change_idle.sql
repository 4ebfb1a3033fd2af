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
