-- name: schedule_next
-- The only query while nothing is due: one lookup at the start of the index.
select (extract(epoch from min(next_at) - statement_timestamp())::float8 * 1000000::float8)::int8
from {schema}.schedule
where not paused and next_at is not null

-- name: schedule_named
-- By name. The left join makes a row for the clock even if no schedule is found.
-- :names::text[]
select statement_timestamp() as now, s.*
from (select) clock
left join (
    {schedules}
    where name = any (:names)
    order by name
) s on true

-- name: schedule_page
-- Ordered by name. The left join makes a row for the clock even if no schedule is found.
-- :after::text, :limit::int8
select statement_timestamp() as now, s.*
from (select) clock
left join (
    {schedules}
    where name > :after
    order by name
    limit :limit
) s on true

-- name: schedule_due
-- Due schedules, the longest overdue first. Nothing is locked, so that nothing waits: `schedule_lock` decides which node fires them.
-- :limit::int8
select statement_timestamp() as now, s.*
from (select) clock
left join (
    {schedules}
    where not paused and next_at <= statement_timestamp()
    order by next_at
    limit :limit
) s on true

-- name: schedule_insert
-- Only if there is no schedule of this name; otherwise the caller reads again.
-- :name::text, :schedule::text, :zone::text, :misfire::text, :overlap::text, :until_at::timestamptz, :times::int8,
-- :anchor_at::timestamptz, :paused::bool, :next_at::timestamptz, :kind::text, :queue::text, :priority::int2, :max_attempts::int4,
-- :payload::jsonb, :body::bytea, :content_type::text, :headers::jsonb, :options::jsonb
insert into {schema}.schedule (name, schedule, zone, misfire, overlap, until_at, times, anchor_at, paused, next_at,
                               kind, queue, priority, max_attempts, payload, body, content_type, headers, options)
values (:name, :schedule, :zone, :misfire, :overlap, :until_at, :times, :anchor_at, :paused, :next_at,
        :kind, :queue, :priority, :max_attempts, :payload, :body, :content_type, :headers, :options)
on conflict (name) do nothing
returning name

-- name: schedule_update
-- Only if the version is still the one that was read; otherwise the caller reads again.
-- :name::text, :schedule::text, :zone::text, :misfire::text, :overlap::text, :until_at::timestamptz, :times::int8,
-- :anchor_at::timestamptz, :paused::bool, :next_at::timestamptz, :kind::text, :queue::text, :priority::int2, :max_attempts::int4,
-- :payload::jsonb, :body::bytea, :content_type::text, :headers::jsonb, :options::jsonb, :seen::int8
update {schema}.schedule
set version = version + 1, schedule = :schedule, zone = :zone, misfire = :misfire, overlap = :overlap,
    until_at = :until_at, times = :times, anchor_at = :anchor_at,
    paused = :paused, next_at = :next_at, kind = :kind, queue = :queue, priority = :priority, max_attempts = :max_attempts,
    payload = :payload, body = :body, content_type = :content_type, headers = :headers, options = :options
where name = :name and version = :seen
returning name

-- name: schedule_delete
-- Jobs that the schedules have sent stay.
-- :names::text[]
delete from {schema}.schedule where name = any (:names) returning name

-- name: schedule_lock
-- Locks the schedules that are unchanged since they were read, skipping those that another node has locked, and says whether the previous
-- job is still alive. Runs in the transaction that sends the jobs.
-- The lock reads the current state of a row, so the version is compared after it. The occurrence is compared too: a schedule that was
-- deleted and put again begins with the same versions.
-- Scalar subselects and not `exists`: PostgreSQL 13 may hash all ids of a table for that.
-- :names::text[], :seen::int8[], :previous_jobs::uuid[], :due_times::timestamptz[]
with asked as materialized (
    select a.name, a.version, a.previous, a.due
    from unnest(:names::text[], :seen::int8[], :previous_jobs::uuid[], :due_times::timestamptz[]) as a(name, version, previous, due)
),
mine as materialized (
    select name, version, next_at
    from {schema}.schedule
    where name = any (:names)
    for update skip locked
)
select a.name,
       a.previous is not null
       and ((select t.id from {schema}.job t where t.id = a.previous limit 1) is not null
            or (select t.id from {schema}.timer_job t where t.id = a.previous limit 1) is not null
            or (select t.id from {schema}.suspended_job t where t.id = a.previous limit 1) is not null
            or (select t.id from {schema}.external_job t where t.id = a.previous limit 1) is not null) as alive
from asked a
where exists (select from mine m where m.name = a.name and m.version = a.version and m.next_at = a.due)

-- name: schedule_fired
-- Moves on schedules that this transaction has locked.
-- :names::text[], :seen::int8[], :next_times::timestamptz[], :last_times::timestamptz[], :last_jobs::uuid[], :sent_counts::int8[]
update {schema}.schedule s
set version = s.version + 1, next_at = f.next_at, last_at = coalesce(f.last_at, s.last_at),
    last_job = coalesce(f.last_job, s.last_job), fired = s.fired + f.sent
from unnest(:names::text[], :seen::int8[], :next_times::timestamptz[], :last_times::timestamptz[], :last_jobs::uuid[], :sent_counts::int8[])
         as f(name, version, next_at, last_at, last_job, sent)
where s.name = f.name and s.version = f.version
returning s.name
