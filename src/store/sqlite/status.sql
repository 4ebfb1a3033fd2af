-- name: queues
-- The jobs of each queue and state. Each arm reads the index of its state, and its rows only where that index does not have the queue: those that wait,
-- and the few that run.
select queue, 'waiting' as state, count(*) as jobs, min(created_at) as oldest, 0 as overdue, null as due from jobwright_job where state = 'waiting' group by queue
union all
select queue, 'running', count(*), null, 0, null from jobwright_job where lock_owner is not null group by queue
union all
select queue, 'external', count(*), null, 0, null from jobwright_job where lease_until is not null group by queue
union all
-- Overdue timers show that no executor promotes them.
select queue, 'timer', count(*), null, count(*) filter (where due_at <= :now), min(due_at) filter (where due_at <= :now) from jobwright_job where state = 'timer' group by queue
union all
select queue, state, count(*), null, 0, null from jobwright_job where state = 'blocked' or state = 'suspended' or state = 'dead' group by queue, state

-- name: nodes
-- The rows a node owns are counted in their own small index.
select id, name, host, pid, started_at, lease, dead_at is not null as dead,
       (select count(*) from jobwright_job where lock_owner = jobwright_node.id) as running, broker, serves, left_alone
from jobwright_node order by id
