-- name: next_timer
-- One index step: whether anything is due, and when to check again.
select min(due_at) from jobwright_job where state = 'timer'

-- name: overdue_work
-- When the first of each sort was due: one index step each.
select (select min(due_at) from jobwright_job where state = 'timer') as timers,
       (select min(options ->> 'expires') from jobwright_job where {may_expire}) as expiry,
       (select min(lease_until) from jobwright_job where lease_until is not null) as external

-- name: promote
-- A job of a group is blocked until it is admitted: a trigger ensures that.
update jobwright_job
set state = 'waiting', due_at = null, admitted = 0
where seq in (select seq from jobwright_job where state = 'timer' and due_at <= :now order by due_at, seq limit :limit)
returning queue, options ->> 'group' is not null as blocked

-- name: prune_progress
-- Removes the progress of jobs that are gone: a trigger would cost all jobs, and few have any.
delete from jobwright_progress
where job_id in (
    select job_id from jobwright_progress
    where not exists (select 1 from jobwright_job where id = job_id)
    limit :limit
)
