-- The jobs that release_unknown.sql would release in a range of pages: used to go around those that it can't release.
-- :node::int8, :ids::uuid[], :versions::int8[], :before::int4, :from_location::tid, :to_location::tid
select id
from {schema}.job j
where j.ctid >= :from_location and j.ctid < :to_location
  and {unknown}
