-- Keeps what these claims hold, while their handlers run, although their jobs are in no table any more and no cancellation removed them: a table
-- was truncated, or restored alone. A terminating handler holds it from now on, until the node reports its end; the trigger there transfers the
-- permits. Without that, upkeep would give them to the next job beside the handler.
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
