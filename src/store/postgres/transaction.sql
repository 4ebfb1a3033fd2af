-- name: remove
-- Like `complete`, for one job, inside the transaction that its handler used. Returns the transaction's id, with which the server can be
-- asked later whether it committed.
-- :node::int8, :id::uuid, :version::int8
--{all} with done as (
delete from {schema}.job where id = :id and version = :version and lock_owner = :node returning id, pg_current_xact_id()::text as xid
--{all} , seq, kind, queue, attempt, created_at, claimed_at, options ->> 'tenant'::text as tenant
--{all} ),
--{all} {remembered_done}
--{all} select id, xid from done

-- name: remove_and_lease
-- Like `remove`, for a job that holds an exclusive group (:key). If others wait for the group, the node holds it from the commit on by a
-- lease (:lease), and goes on with them (`complete_and_claim_next`). The number of the claim (:claim) identifies a lease whose answer
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
--{all} {remembered_done},
leased as (
    update {schema}.permit
    set job_id = :lease, node = :node, version = :claim
    where job_id = (select id from done) and key = :key and node is null
      and (select {schema}.hold_node(:node)) is not null
      and (select exists (select from {schema}.job where blocked_on = :key and share = '' and lock_owner is null))
    returning key
)
select id, pg_current_xact_id()::text as xid, exists (select from leased) as leased from done

-- name: remove_all
-- Like `remove`, for a batch of jobs, in one statement. Shaped like `complete` (which says why it has no join).
-- :node::int8, :ids::uuid[], :versions::int8[]
--{all} with done as (
delete from {schema}.job j
where j.id = any (:ids::uuid[])
  and j.lock_owner = :node
  and ((j.id, j.version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is true
returning j.id, pg_current_xact_id()::text as xid
--{all} , j.seq, j.kind, j.queue, j.attempt, j.created_at, j.claimed_at, j.options ->> 'tenant'::text as tenant
--{all} ),
--{all} {remembered_done}
--{all} select id, xid from done

-- name: keep_result
-- Runs in the transaction that removes the job. If a job was sent again under its old id, its new result replaces the old one.
-- :id::uuid, :kind::text, :payload::jsonb, :retention_us::int8
insert into {schema}.result (job_id, kind, payload, expires_at)
values (:id, :kind, :payload, clock_timestamp() + :retention_us::float8 * interval '1 microsecond')
on conflict (job_id) do update
set kind = excluded.kind, payload = excluded.payload, created_at = excluded.created_at, expires_at = excluded.expires_at

-- name: place
-- The database and its server, to compare two ways that should lead to the same one. A standby has another time of its start than its primary, and
-- the same database there takes no writes. Two sessions may have different zones and styles of dates, so neither decides how it looks.
select d.datname::text || ' (oid '::text || d.oid::text || ') of the server that was started at '::text
    || pg_catalog.to_char(pg_catalog.pg_postmaster_start_time() at time zone 'UTC'::text, 'YYYY-MM-DD HH24:MI:SS.US'::text) as place
from pg_catalog.pg_database d
where d.datname = pg_catalog.current_database()
