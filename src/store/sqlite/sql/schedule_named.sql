-- Any number of names as one parameter: a JSON array.
select name, version, schedule, zone, misfire, overlap, until_at, times, anchor_at, paused, next_at, last_at, last_job,
       fired, kind, queue, priority, max_attempts, payload, body, content_type, headers, options
from jobwright_schedule
where name in (select value from json_each(:names))
order by name
