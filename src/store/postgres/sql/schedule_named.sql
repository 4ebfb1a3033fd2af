-- By name. The left join makes a row for the clock even if no schedule is found.
-- :names::text[]
select statement_timestamp() as now, s.*
from (select) clock
left join (
    select name, version, schedule, zone, misfire, overlap, until_at, times, anchor_at, paused, next_at, last_at,
           last_job, fired, kind, queue, priority, max_attempts, payload, body, content_type, headers, options
    from {schema}.schedule
    where name = any (:names)
    order by name
) s on true
