-- Makes dead letters of timers that can't be made to wait, each only if it is still the row that was examined (its `seq`). No attempt is spent.
-- :ids::uuid[], :seqs::int8[], :reasons::text[], :node::int8
with gone as (
    delete from {schema}.timer_job t
    where {briefly}
      and t.id = any (:ids::uuid[])
      and t.seq = (:seqs::int8[])[array_position(:ids::uuid[], t.id)]
    returning t.*, (:reasons::text[])[array_position(:ids::uuid[], t.id)] as why, 0 as cost
),
{buried}
--{failed} , remembered as (
--{failed}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, node, tenant, error)
--{failed}     select id, seq, kind, queue, 'dead', attempts, created_at, :node::int8, fit ->> 'tenant'::text, why from buried
--{failed} )
select id from gone
