-- Like remove.sql, for a job that holds an exclusive group (:key). If others wait for the group, the node holds it from the commit on by a
-- lease (:lease), and goes on with them (complete_and_claim_next.sql). The number of the claim (:claim) identifies a lease whose answer
-- got lost.
-- Otherwise the end of the job releases the group.
-- A lease is made as a claim is: the statement locks the node, and a dead node gets none.
-- :node::int8, :id::uuid, :version::int8, :key::text, :lease::uuid, :claim::int4
with done as (
    delete from {schema}.job
    where id = :id and version = :version and lock_owner = :node
    returning id
--{all} , seq, kind, queue, attempt, created_at, claimed_at, options ->> 'tenant'::text as tenant
),
--{all} remembered as (
--{all}     insert into {schema}.history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, node, tenant)
--{all}     select id, seq, kind, queue, 'done', attempt, created_at, claimed_at, :node, tenant from done
--{all} ),
leased as (
    update {schema}.permit
    set job_id = :lease, node = :node, version = :claim
    where job_id = (select id from done) and key = :key and node is null
      and (select {schema}.hold_node(:node)) is not null
      and (select exists (select from {schema}.job where blocked_on = :key and share = '' and lock_owner is null))
    returning key
)
select id, pg_current_xact_id()::text as xid, exists (select from leased) as leased from done
