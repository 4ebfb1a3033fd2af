-- Only for who still owns the job: its row is locked, so nobody else gets it before this is written, and a claim of the past finds
-- none. What is not said stays.
insert into {schema}.progress (job_id, percent, note, checkpoint)
select id, $4, $5, $6
from {schema}.job
where id = $2 and version = $3 and lock_owner = $1
for share
on conflict (job_id) do update
set percent = coalesce(excluded.percent, progress.percent), note = coalesce(excluded.note, progress.note),
    checkpoint = coalesce(excluded.checkpoint, progress.checkpoint), at = excluded.at
returning job_id
