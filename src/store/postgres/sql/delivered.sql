-- The rows that a claim of deliveries (claim_delivered.sql) would find, and nothing of what they hold; whether they may start is left aside.
select c.id, c.version::int8, c.seq
from {schema}.job c
where c.id = any ($1::uuid[])
  and c.lock_owner is null
  and coalesce(c.gate, '') = ''
  and ((c.id, c.version) in (select * from unnest($1::uuid[], $2::int8[]))) is true
