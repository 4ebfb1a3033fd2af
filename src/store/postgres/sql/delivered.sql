-- The rows that a claim of deliveries (claim_delivered.sql) would find, without their content. Whether they may start is not checked.
select c.id, c.version::int8, c.seq
from {schema}.job c
where c.id = any ($1::uuid[])
  and c.lock_owner is null
  and coalesce(c.blocked_on, '') = ''
  and ((c.id, c.version) in (select * from unnest($1::uuid[], $2::int8[]))) is true
