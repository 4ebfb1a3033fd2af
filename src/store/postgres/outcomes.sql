-- name: complete
-- Removes finished jobs, each only if this claim still owns it.
-- No join. The planner believes that next to nothing is owned (as it was when the table was last analysed), so for a long batch it would
-- scan the whole index of owned rows and compare each with each of the batch: 278 ms where this takes 2.
-- So the ids find the rows, through their index and in no other way, and the fences are checked in a hashed subplan. `is true` keeps the
-- planner from turning that into a join again.
-- :node::int8, :ids::uuid[], :versions::int8[]
--{all} with done as (
delete from {schema}.job j
where {briefly}
  and j.id = any (:ids::uuid[])
  and j.lock_owner = :node
  and ((j.id, j.version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is true
returning j.id
--{all} , j.seq, j.kind, j.queue, j.attempt, j.created_at, j.claimed_at, j.options ->> 'tenant'::text as tenant
--{all} ),
--{all} {remembered_done}
--{all} select id from done

-- name: complete_at
-- Like `complete`, for jobs whose claim returned the location of their rows. No index is read, and no page is cleaned up on the way; the
-- next VACUUM does that at once for both the claim and this. Another row may be at such a location by now: id, token and owner decide, as
-- in `complete`, and rows not found are looked up by id.
-- In a loop of claims and removals 0.9 of the server's time and 8 bytes of WAL less for a job (ADR 44).
-- :node::int8, :ids::uuid[], :versions::int8[], :locations::tid[]
--{all} with done as (
delete from {schema}.job j
where {briefly}
  and j.ctid = any (:locations::tid[])
  and j.lock_owner = :node
  and ((j.id, j.version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is true
returning j.id
--{all} , j.seq, j.kind, j.queue, j.attempt, j.created_at, j.claimed_at, j.options ->> 'tenant'::text as tenant
--{all} ),
--{all} {remembered_done}
--{all} select id from done

-- name: complete_holding
-- Like `complete_at`, for jobs that hold a group or permits. It first names the jobs that end, for this transaction only, so that a
-- trigger releases what they hold together and not row by row. The subselect does not depend on the row, so it runs once, before a row is
-- read. A named job that is not removed still exists and keeps what it holds, or something else removed it and it has nothing left.
-- :node::int8, :ids::uuid[], :versions::int8[], :locations::tid[]
--{all} with done as (
delete from {schema}.job j
where (select set_config('jobwright.ended', (:ids::uuid[])::text, true)) is not null
  and {briefly}
  and j.ctid = any (:locations::tid[])
  and j.lock_owner = :node
  and ((j.id, j.version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is true
returning j.id
--{all} , j.seq, j.kind, j.queue, j.attempt, j.created_at, j.claimed_at, j.options ->> 'tenant'::text as tenant
--{all} ),
--{all} {remembered_done}
--{all} select id from done

-- name: complete_keyed
-- Like `complete_holding`, for a batch with jobs that hold unique keys. Permits are released as there, if any job holds some
-- (:holding). The statement gives the keys back itself, and turns off the trigger that does it row by row, which took longer than
-- everything else for such a job.
-- A key is looked up by its value, and is given back if it still belongs to that job. A key that was taken for a period stays until the
-- period is over. If there is another row with the same id, the key belongs to that one. A key that a sender is just taking over is left to
-- the sender: the end of a job waits for no sender.
-- All rows are removed before a key is locked, because of the locking order: a process that waits for one of the keys waits only for the
-- end of this statement.
-- :node::int8, :ids::uuid[], :versions::int8[], :locations::tid[], :holding::bool
with done as (
    delete from {schema}.job j
    where (select set_config('jobwright.ended', case when :holding then (:ids::uuid[])::text else '' end, true)) is not null
      and (select set_config('jobwright.released', 'true', true)) is not null
      and {briefly}
      and j.ctid = any (:locations::tid[])
      and j.lock_owner = :node
      and ((j.id, j.version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is true
    returning j.id, {schema}.key_of(j.options) as key
--{all} , j.seq, j.kind, j.queue, j.attempt, j.created_at, j.claimed_at, j.options ->> 'tenant'::text as tenant
),
--{all} {remembered_done},
released as (
    delete from {schema}.unique_key
    where ctid = any (array(
        select k.tid
        from (select id, key from done where key is not null order by key) d
             cross join lateral (
                 select ctid as tid
                 from {schema}.unique_key
                 where key = d.key and job_id = d.id and hold <> 'period'
                   and not exists (select from {schema}.timer_job where id = d.id)
                   and not exists (select from {schema}.external_job where id = d.id)
                   and not exists (select from {schema}.dead_letter_job where id = d.id)
                   and not exists (select from {schema}.suspended_job where id = d.id)
                 for update skip locked
             ) k
    ))
)
select id from done

-- name: put_off
-- Leaves the job in its table, because the move may be what fails. Hiding the row keeps claims away, as for a delivery.
-- A suspect (`suspects`) is none after that: it has run to an end.
-- :node::int8, :id::uuid, :version::int8, :delay_us::int8
with back as (
    update {schema}.job
    set lock_owner = null, claimed_at = null, visible_at = clock_timestamp() + :delay_us::float8 * interval '1 microsecond',
        blocked_on = case when blocked_on <> 'alone' then blocked_on end, share = case when blocked_on <> 'alone' then share end
    where {briefly} and id = :id and version = :version and lock_owner = :node
    returning blocked_on
)
insert into {schema}.unblock (key) select blocked_on from back where blocked_on is not null

-- name: handlers_ended
-- Removes handlers of cancelled jobs that have ended, of a node or of external workers (:node null). A trigger releases what they held.
-- :node::int8, :ids::uuid[], :versions::int8[]
delete from {schema}.terminating_handler
where job_id = any (:ids::uuid[])
  and node is not distinct from :node
  and ((job_id, version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is true
returning holder

-- name: stale_claims
-- Which claims are no longer current: cancelled, or released to another node. Looked up by id, for the few jobs that have been running for
-- a while. There is no join: planned on an empty table, it would compare them with all jobs.
-- :node::int8, :ids::uuid[], :versions::int8[]
select w.id, w.version
from unnest(:ids::uuid[], :versions::int8[]) as w(id, version)
where (select j.id from {schema}.job j where j.id = w.id and j.version = w.version and j.lock_owner = :node limit 1) is null

-- name: keep_vanished
-- Keeps what these claims hold, while their handlers run, although their jobs are in no table any more and no cancellation removed them: a table
-- was truncated, or restored alone. A terminating handler holds it from now on, until the node reports its end; the trigger there transfers the
-- permits. Without that, reconciliation would give them to the next job beside the handler.
-- :node::int8, :ids::uuid[], :versions::int8[]
insert into {schema}.terminating_handler (job_id, version, node)
select w.id, w.version, :node
from unnest(:ids::uuid[], :versions::int8[]) as w(id, version)
where (select p.job_id from {schema}.permit p where p.job_id = w.id and p.node is null limit 1) is not null
  and (select j.id from {schema}.job j where j.id = w.id limit 1) is null
  and (select j.id from {schema}.timer_job j where j.id = w.id limit 1) is null
  and (select j.id from {schema}.suspended_job j where j.id = w.id limit 1) is null
  and (select j.id from {schema}.dead_letter_job j where j.id = w.id limit 1) is null
  and (select j.id from {schema}.external_job j where j.id = w.id limit 1) is null
returning job_id

-- name: record_progress
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

-- name: progress
-- One lookup by the primary key.
-- :id::uuid
select percent, note, checkpoint, at from {schema}.progress where job_id = :id
