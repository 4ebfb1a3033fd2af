-- Counts of all queues in one pass over each table.
select queue,
       sum(waiting)::int8 as waiting, sum(running)::int8 as running, sum(timer)::int8 as timer, sum(overdue)::int8 as overdue,
       sum(suspended)::int8 as suspended, sum(dead)::int8 as dead, sum(external)::int8 as external, sum(blocked)::int8 as blocked,
       extract(epoch from clock_timestamp() - min(oldest))::float8 as oldest_waiting_seconds
from (
    select queue, count(*) filter (where {state} = 'waiting') as waiting, count(*) filter (where lock_owner is not null) as running,
           0 as timer, 0 as overdue, 0 as suspended, 0 as dead, 0 as external, count(*) filter (where {state} = 'blocked') as blocked,
           min(created_at) filter (where {state} = 'waiting' and isfinite(created_at)) as oldest
    from {schema}.job group by queue
    union all
    select queue, 0, 0, count(*), count(*) filter (where due_at < clock_timestamp()), 0, 0, 0, 0, null
    from {schema}.timer_job group by queue
    union all
    select queue, 0, 0, 0, 0, count(*), 0, 0, 0, null from {schema}.suspended_job group by queue
    union all
    select queue, 0, 0, 0, 0, 0, count(*), 0, 0, null from {schema}.dead_letter_job group by queue
    union all
    select queue, 0, 0, 0, 0, 0, 0, count(*), 0, null from {schema}.external_job group by queue
) counts
group by queue
order by queue
