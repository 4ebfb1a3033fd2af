-- name: complete_all
-- Removes finished jobs, each only if this claim still owns it. One statement removes all of them: a statement that may fire a trigger
-- keeps a journal of the pages it changes, and row by row that cost more than the removal.
delete from jobwright_job
where {still_owned}
returning id

-- name: put_off
-- Only hides the row, because the move may be what fails. That keeps claims away, as for a delivery.
update jobwright_job set state = 'waiting', lock_owner = null, claimed_at = null, visible_at = :until
where id = :id and version = :version and lock_owner = :node

-- name: handler_ended
-- Removes the handler of a cancelled job that has ended, of a node or of an external worker (null). A trigger releases what it held.
delete from jobwright_terminating_handler where job_id = :id and version = :version and node is :node

-- name: is_current
-- Whether a claim is current.
select 1 from jobwright_job where id = :id and version = :version and lock_owner = :node

-- name: record_progress
-- Only for the current owner of the job; nothing else can happen meanwhile. Values that are not given stay.
insert into jobwright_progress (job_id, percent, note, checkpoint, at)
select id, :percent, :note, :checkpoint, :now
from jobwright_job where id = :id and version = :version and lock_owner = :node
on conflict (job_id) do update
set percent = coalesce(excluded.percent, percent), note = coalesce(excluded.note, note),
    checkpoint = coalesce(excluded.checkpoint, checkpoint), at = excluded.at

-- name: progress
-- One lookup by the primary key.
select percent, note, checkpoint, at from jobwright_progress where job_id = :id
