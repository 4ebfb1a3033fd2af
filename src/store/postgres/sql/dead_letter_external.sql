-- Makes dead letters of hand-outs that can't be released, each only if it is still the one that was examined. Its attempt was spent when it was
-- handed out.
-- :ids::uuid[], :versions::int8[], :seqs::int8[], :reasons::text[], :node::int8
with gone as (
    delete from {schema}.external_job e
    where {briefly}
      and e.id = any (:ids::uuid[])
      and e.version = (:versions::int8[])[array_position(:ids::uuid[], e.id)]
      and e.seq = (:seqs::int8[])[array_position(:ids::uuid[], e.id)]
    returning e.*, (:reasons::text[])[array_position(:ids::uuid[], e.id)] as why, 0 as cost
),
{buried}
--{failed} , remembered as (
--{failed}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, node, tenant, error)
--{failed}     select id, seq, kind, queue, 'dead', attempts, created_at, :node::int8, fit ->> 'tenant'::text, why from buried
--{failed} )
select id from gone
