-- Ordered by name. The left join makes a row for the clock even if no schedule is found.
select statement_timestamp(), s.*
from (select) clock
left join (
    select name, version, schedule, zone, misfire, overlap, until_at, times, anchor_at, paused, next_at, last_at,
           last_job, fired, kind, queue, priority, max_attempts, payload, body, content_type, headers, options
    from {schema}.schedule
    where name > $1
    order by name
    limit $2
) s on true
