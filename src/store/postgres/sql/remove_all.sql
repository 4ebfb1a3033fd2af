-- Like remove.sql, for a batch of jobs, in one statement. Shaped like complete.sql (which says why it has no join).
-- :node::int8, :ids::uuid[], :versions::int8[]
--{all} with done as (
delete from {schema}.job j
where j.id = any (:ids::uuid[])
  and j.lock_owner = :node
  and ((j.id, j.version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is true
returning j.id, pg_current_xact_id()::text as xid
--{all} , j.seq, j.kind, j.queue, j.attempt, j.created_at, j.claimed_at, j.options ->> 'tenant'::text as tenant
--{all} ),
--{all} remembered as (
--{all}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
--{all}     select id, seq, kind, queue, 'done', attempt, created_at, claimed_at, :node, tenant from done
--{all} )
--{all} select id, xid from done
