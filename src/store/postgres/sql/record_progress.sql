-- Only for the current owner of the job: the row is locked, so no other node gets the job before this is written, and an outdated claim
-- finds no row. Values that are not given stay.
insert into {schema}.progress (job_id, percent, note, checkpoint)
select id, $4, $5, $6
from {schema}.job
where id = $2 and version = $3 and lock_owner = $1
for share
on conflict (job_id) do update
set percent = coalesce(excluded.percent, progress.percent), note = coalesce(excluded.note, progress.note),
    checkpoint = coalesce(excluded.checkpoint, progress.checkpoint), at = excluded.at
returning job_id
