-- Due schedules, the longest overdue first.
select name, version, schedule, zone, misfire, overlap, until_at, times, anchor_at, paused, next_at, last_at, last_job,
       fired, kind, queue, priority, max_attempts, payload, body, content_type, headers, options
from jobwright_schedule
where paused = 0 and next_at is not null and next_at <= :now
order by next_at
limit :limit
