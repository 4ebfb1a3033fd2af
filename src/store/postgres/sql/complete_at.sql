-- Like complete.sql, for jobs whose claim returned the location of their rows. No index is read, and no page is cleaned up on the way; the
-- next VACUUM does that at once for both the claim and this. Another row may be at such a location by now: id, token and owner decide, as
-- in complete.sql, and rows not found are looked up by id.
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
--{all} remembered as (
--{all}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
--{all}     select id, seq, kind, queue, 'done', attempt, created_at, claimed_at, :node, tenant from done
--{all} )
--{all} select id from done
