-- The rows that a claim of deliveries (claim_delivered.sql) would find, without their content. Whether they may start is not checked.
-- :ids::uuid[], :versions::int8[]
select c.id, c.version::int8 as version, c.seq
from {schema}.job c
where c.id = any (:ids::uuid[])
  and c.lock_owner is null
  and coalesce(c.blocked_on, '') = ''
  and ((c.id, c.version) in (select * from unnest(:ids::uuid[], :versions::int8[]))) is true
