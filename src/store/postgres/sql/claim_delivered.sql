-- Claims the rows that deliveries name, each only if it still waits in the version of the delivery.
-- `me` as in claim.sql. The ids find the rows, through their index and in no other way, under any statistics. The versions are checked in a
-- hashed subplan, because a batch may name an id twice (an old delivery and a newer one).
-- Blocked rows are excluded by a comparison that matches no partial index, so that only the ids are used to find rows.
-- SKIP LOCKED: if two nodes got the same delivery, neither waits for the other.
-- :node::int8, :ids::uuid[], :versions::int8[], :kinds::text[], :claim::int4
with me as materialized (
    select coalesce({schema}.hold_node(:node), {schema}.refuse_node(:node)) as id
)
update {schema}.job j
set lock_owner = me.id,
    version    = :claim,
    attempt    = j.attempt + 1,
    claimed_at = clock_timestamp(),
    visible_at = null
from me
where j.ctid = any (array(
    select c.ctid
    from {schema}.job c
    where c.id = any (:ids::uuid[])
      and c.lock_owner is null
      and coalesce(c.blocked_on, '') = ''
      and {may_start}
      and ((c.id, c.version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is true
      and (:kinds::text[] is null or c.kind = any (:kinds))
    for update skip locked
))
returning {job:j}, j.ctid
