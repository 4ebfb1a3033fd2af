-- Only for the current owner of the job; nothing else can happen meanwhile. Values that are not given stay.
insert into jobwright_progress (job_id, percent, note, checkpoint, at)
select id, :percent, :note, :checkpoint, :now
from jobwright_job where id = :id and version = :version and lock_owner = :node
on conflict (job_id) do update
set percent = coalesce(excluded.percent, percent), note = coalesce(excluded.note, note),
    checkpoint = coalesce(excluded.checkpoint, checkpoint), at = excluded.at
