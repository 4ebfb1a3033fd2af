-- The rows that release_lost.sql would release in a range of pages, without their content: used to find the one that it can't release.
-- :limit::int8, :from_location::tid, :to_location::tid
select j.id, j.version::int8 as version, j.seq, j.lock_owner::int8 as owner
from {schema}.job j
where j.ctid >= :from_location and j.ctid < :to_location
  and j.lock_owner is not null
  and not exists (select from {schema}.node n where n.id = j.lock_owner and n.dead_at is null)
limit :limit
