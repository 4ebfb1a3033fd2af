-- name: lanes
-- The pairs of queue and rank of waiting jobs: each by a step in the index from the one before, and never by grouping, which would read all of them.
with recursive lanes(queue, rank) as (
    select * from (select queue, rank from jobwright_job where state = 'waiting' order by queue, rank limit 1)
    union all
    select coalesce((select l.queue from jobwright_job j where j.state = 'waiting' and j.queue = l.queue and j.rank > l.rank limit 1),
                    (select j.queue from jobwright_job j where j.state = 'waiting' and j.queue > l.queue order by j.queue limit 1)),
           coalesce((select j.rank from jobwright_job j where j.state = 'waiting' and j.queue = l.queue and j.rank > l.rank order by j.rank limit 1),
                    (select j.rank from jobwright_job j where j.state = 'waiting' and j.queue > l.queue order by j.queue, j.rank limit 1))
    from lanes l
    where l.queue is not null
)
select queue, rank from lanes where queue is not null

-- name: lane
-- How many jobs wait in a lane, up to a limit, by the index alone; and when the oldest of the first was sent. A row costs more than an entry of the index, so
-- fewer of them are read: jobs are in the order in which they were sent.
select (select count(*) from (select 1 from jobwright_job where state = 'waiting' and queue = :queue and rank = :rank limit :limit)) as jobs,
       (select min(created_at) from (
            select created_at from jobwright_job where state = 'waiting' and queue = :queue and rank = :rank order by seq limit :rows)) as oldest

-- name: queues
-- The queues of jobs in a state (`{of}` is the condition of `{index}`, which begins with the queue), step by step as in `lanes`. The index is named, because
-- the planner prefers one that begins with the state, and would read and sort all of its jobs.
with recursive queues(queue) as (
    select * from (select queue from jobwright_job indexed by {index} where {of} order by queue limit 1)
    union all
    select (select j.queue from jobwright_job j indexed by {index} where {of} and j.queue > q.queue order by j.queue limit 1)
    from queues q
    where q.queue is not null
)
select queue from queues where queue is not null

-- name: queue
-- How many jobs of a queue are in a state, up to a limit.
select count(*) as jobs from (select 1 from jobwright_job indexed by {index} where {of} and queue = :queue limit :limit)

-- name: few
-- Jobs that nodes or external workers have, by queue: no more than there are slots, and than `queues.NAME.depth` lets out. Overdue timers show that no
-- executor promotes them: those that have been due for the longest.
select 'running' as state, queue, count(*) as jobs, null as due, sum(count(*)) over () as among
from (select queue from jobwright_job where lock_owner is not null limit :limit) group by queue
union all
select 'external', queue, count(*), null, sum(count(*)) over ()
from (select queue from jobwright_job where lease_until is not null limit :limit) group by queue
union all
select 'timer', queue, count(*), min(due_at), sum(count(*)) over ()
from (select queue, due_at from jobwright_job where state = 'timer' and due_at <= :now order by due_at limit :limit) group by queue

-- name: nodes
-- The rows a node owns are counted in their own small index.
select id, name, host, pid, started_at, lease, dead_at is not null as dead,
       (select count(*) from jobwright_job where lock_owner = jobwright_node.id) as running, broker, serves, left_alone, failing
from jobwright_node order by id
