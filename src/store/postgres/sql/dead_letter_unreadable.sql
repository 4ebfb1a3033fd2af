-- Makes dead letters of rows that can't be read or carried on, each only in the state in which it was examined: waiting (:owner is 0), or
-- owned by a node that is gone. A job that was sent since with the same id has the same version, but a `seq` of its own. It may count as an
-- attempt (:cost), as any claim does.
-- :ids::uuid[], :versions::int8[], :reasons::text[], :node::int8, :seqs::int8[], :owner::int8, :cost::int4
with gone as (
    delete from {schema}.job j
    where {briefly}
      and j.id = any (:ids::uuid[])
      and coalesce(j.lock_owner, 0) = :owner
      and j.version = (:versions::int8[])[array_position(:ids::uuid[], j.id)]
      and j.seq = (:seqs::int8[])[array_position(:ids::uuid[], j.id)]
    returning j.*, (:reasons::text[])[array_position(:ids::uuid[], j.id)] as why, :cost as cost
),
{buried}
--{failed} , remembered as (
--{failed}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, node, tenant, error)
--{failed}     select id, seq, kind, queue, 'dead', attempts, created_at, :node::int8, fit ->> 'tenant'::text, why from buried
--{failed} )
select id from gone
