-- Due schedules, the longest overdue first. Nothing is locked, so that nothing waits: schedule_lock.sql decides which node fires them.
-- :limit::int8
select statement_timestamp() as now, s.*
from (select) clock
left join (
    select name, version, schedule, zone, misfire, overlap, until_at, times, anchor_at, paused, next_at, last_at,
           last_job, fired, kind, queue, priority, max_attempts, payload, body, content_type, headers, options
    from {schema}.schedule
    where not paused and next_at <= statement_timestamp()
    order by next_at
    limit :limit
) s on true
