-- The rows a node owns are counted in their own small index.
select id, name, host, pid, started_at, lease, dead_at is not null as dead,
       (select count(*) from jobwright_job where lock_owner = jobwright_node.id) as running, broker
from jobwright_node order by id
