-- name: known_as
-- As which job an id is known: its kind, its queue, and the queue that it was sent to if it was moved since. Only for ids that the sender chose.
select kind, queue, case when json_valid(options) then json_extract(options, '$.sentTo') end as sent_to from jobwright_job where id = :id

-- name: holder
-- The job that has a key, whether the key is still held, and whether that job waits. If the job no longer exists, only a period can still
-- hold the key. A job with its id that asked for another key, or for none, is another job.
select job_id, waits, case hold when 'period' then expires_at > :now when 'waiting' then waits else is_there end as held
from (
    select k.*, job.seq is not null as is_there, coalesce(job.state in ('waiting', 'blocked', 'timer', 'suspended'), false) as waits
    from jobwright_unique_key k left join jobwright_job job
        on job.id = k.job_id and case when json_valid(job.options) then json_extract(job.options, '$.unique.key') end = lower(hex(k.key))
    where k.key = unhex(:key)
)

-- name: take
-- For a key that is no longer held, or whose job was just removed.
insert into jobwright_unique_key (key, job_id, hold, taken_at, expires_at) values (unhex(:key), :id, :hold, :taken_at, :expires_at)
on conflict (key) do update set
    job_id = excluded.job_id, hold = excluded.hold, taken_at = excluded.taken_at, expires_at = excluded.expires_at

-- name: replace
-- Removes a waiting job in favour of its replacement. A suspended job stays.
delete from jobwright_job where id = :id and state in ('waiting', 'blocked', 'timer')
