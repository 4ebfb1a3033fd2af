-- Like complete_at.sql, for jobs that hold a group or permits. It first names the jobs that end, for this transaction only, so that a
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
--{all} remembered as (
--{all}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
--{all}     select id, seq, kind, queue, 'done', attempt, created_at, claimed_at, :node, tenant from done
--{all} )
--{all} select id from done
