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
--{all} remembered as (
--{all}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
--{all}     select id, seq, kind, queue, 'done', attempt, created_at, claimed_at, :node, tenant from done
--{all} )
--{all} select id from done
