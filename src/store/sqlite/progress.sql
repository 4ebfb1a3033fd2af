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

-- name: prune_progress
-- Removes the progress of jobs that are gone: a trigger would cost all jobs, and few have any.
delete from jobwright_progress
where job_id in (
    select job_id from jobwright_progress
    where not exists (select 1 from jobwright_job where id = job_id)
    limit :limit
)
