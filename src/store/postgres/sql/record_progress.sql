-- Only for the current owner of the job: the row is locked, so no other node gets the job before this is written, and an outdated claim
-- finds no row. Values that are not given stay.
-- :node::int8, :id::uuid, :version::int8, :percent::int2, :note::text, :checkpoint::jsonb
insert into {schema}.progress (job_id, percent, note, checkpoint)
select id, :percent, :note, :checkpoint
from {schema}.job
where id = :id and version = :version and lock_owner = :node
for share
on conflict (job_id) do update
set percent = coalesce(excluded.percent, progress.percent), note = coalesce(excluded.note, progress.note),
    checkpoint = coalesce(excluded.checkpoint, progress.checkpoint), at = excluded.at
returning job_id
