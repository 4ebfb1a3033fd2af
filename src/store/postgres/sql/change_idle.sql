-- Changes jobs that neither wait nor run, in place. $11: rank; $12, $13: due date, as a timestamp or as microseconds from now; $14: queue;
-- $15: attempts. A dead letter has no due date.
with timers as (
    update {schema}.timer_job t
    set rank = coalesce($11, t.rank), max_attempts = coalesce($15, t.max_attempts), queue = coalesce($14, t.queue),
        -- Moving to another queue invalidates earlier deliveries.
        version = (t.version + case when t.queue <> $14 then 1 else 0 end) & 2147483647,
        due_at = coalesce($12, statement_timestamp() + $13 * interval '1 microsecond', t.due_at)
    where ($2::text[] is null or 'timer' = any ($2))
      and {filter}
    returning 1
),
suspended as (
    update {schema}.suspended_job t
    set rank = coalesce($11, t.rank), max_attempts = coalesce($15, t.max_attempts), queue = coalesce($14, t.queue),
        -- Moving to another queue invalidates earlier deliveries.
        version = (t.version + case when t.queue <> $14 then 1 else 0 end) & 2147483647,
        due_at = coalesce($12, statement_timestamp() + $13 * interval '1 microsecond', t.due_at)
    where ($2::text[] is null or 'suspended' = any ($2))
      and {filter}
    returning 1
),
dead as (
    update {schema}.dead_letter_job t
    set rank = coalesce($11, t.rank), max_attempts = coalesce($15, t.max_attempts), queue = coalesce($14, t.queue),
        -- Moving to another queue invalidates earlier deliveries.
        version = (t.version + case when t.queue <> $14 then 1 else 0 end) & 2147483647
    where coalesce($11::text, $14, $15::text) is not null
      and ($2::text[] is null or 'dead' = any ($2))
      and {dead_filter}
    returning 1
)
select 'timer' as state, count(*), null::uuid[] as ids from timers
union all
select 'suspended', count(*), null from suspended
union all
select 'dead', count(*), null from dead
