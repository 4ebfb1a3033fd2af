-- name: next
-- The only query while nothing is due: one lookup at the start of the index.
select min(next_at) from jobwright_schedule where paused = 0 and next_at is not null

-- name: named
-- Any number of names as one parameter: a JSON array.
select name, version, schedule, zone, misfire, overlap, until_at, times, anchor_at, paused, next_at, last_at, last_job,
       fired, kind, queue, priority, max_attempts, payload, body, content_type, headers, options
from jobwright_schedule
where name in (select value from json_each(:names))
order by name

-- name: page
-- Ordered by name.
select name, version, schedule, zone, misfire, overlap, until_at, times, anchor_at, paused, next_at, last_at, last_job,
       fired, kind, queue, priority, max_attempts, payload, body, content_type, headers, options
from jobwright_schedule
where name > :after
order by name
limit :limit

-- name: due
-- Due schedules, the longest overdue first.
select name, version, schedule, zone, misfire, overlap, until_at, times, anchor_at, paused, next_at, last_at, last_job,
       fired, kind, queue, priority, max_attempts, payload, body, content_type, headers, options
from jobwright_schedule
where paused = 0 and next_at is not null and next_at <= :now
order by next_at
limit :limit

-- name: insert
-- Only if there is no schedule of this name; otherwise the caller reads again.
insert into jobwright_schedule (name, schedule, zone, misfire, overlap, until_at, times, anchor_at, paused, next_at, created_at,
                                kind, queue, priority, max_attempts, payload, body, content_type, headers, options)
values (:name, :schedule, :zone, :misfire, :overlap, :until_at, :times, :anchor_at, :paused, :next_at, :now,
        :kind, :queue, :priority, :max_attempts, :payload, :body, :content_type, :headers, :options)
on conflict (name) do nothing

-- name: update
-- Only if the version is still the one that was read; otherwise the caller reads again.
update jobwright_schedule
set version = version + 1, schedule = :schedule, zone = :zone, misfire = :misfire, overlap = :overlap, until_at = :until_at,
    times = :times, anchor_at = :anchor_at, paused = :paused, next_at = :next_at, kind = :kind, queue = :queue,
    priority = :priority, max_attempts = :max_attempts, payload = :payload, body = :body, content_type = :content_type,
    headers = :headers, options = :options
where name = :name and version = :seen

-- name: delete
-- Jobs that the schedule has sent stay.
delete from jobwright_schedule where name = :name

-- name: version
-- Whether the schedule is unchanged since it was read. The occurrence is compared too: a schedule that was deleted and put again begins
-- with the same versions.
select exists (select 1 from jobwright_schedule where name = :name and version = :seen and next_at = :due)

-- name: alive
-- Whether the job of the previous occurrence is still alive; a dead letter is not.
select exists (select 1 from jobwright_job where id = :id and state <> 'dead')

-- name: fired
-- Moves a schedule on, in the transaction that sends its jobs.
update jobwright_schedule
set version = version + 1, next_at = :next_at, last_at = coalesce(:last_at, last_at), last_job = coalesce(:last_job, last_job),
    fired = fired + :sent
where name = :name and version = :seen
