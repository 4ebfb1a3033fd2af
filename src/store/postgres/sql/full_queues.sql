-- Which queues are full. Counts no further than the limit.
-- :queues::text[], :depths::int8[]
select q.name, q.depth
from unnest(:queues::text[], :depths::int8[]) as q(name, depth)
where (select count(*) from (select from {schema}.job j where j.queue = q.name and j.lock_owner is null and j.blocked_on is null limit q.depth) w)
    + (select count(*) from (select from {schema}.job b where b.queue = q.name and b.lock_owner is null and b.blocked_on > '' limit q.depth) w) >= q.depth
