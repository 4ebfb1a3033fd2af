-- name: register_node
-- The process that registers draws the id. If it exists, nothing is inserted, and another one is drawn: no process may pass for another
-- one.
-- The lease starts at once: the first heartbeat may take a moment.
insert into jobwright_node (id, name, host, pid, lease, started_at, expires_at, serves)
values (:node, :name, :host, :pid, :lease, :now, :now + :lease, :serves)
on conflict (id) do nothing

-- name: report_broker
-- Shown in the status; nothing depends on it.
update jobwright_node set broker = :broker where id = :node

-- name: report_left_alone
-- Shown to people; nothing depends on it.
update jobwright_node set left_alone = :kinds where id = :node

-- name: report_failing
-- Shown to people; nothing depends on it.
update jobwright_node set failing = :tasks where id = :node

-- name: retire_node
-- Declares the node dead first. What it owns is released next, and then it is forgotten, all in one transaction.
update jobwright_node set dead_at = coalesce(dead_at, :now) where id = :node

-- name: forget_nodes
-- Removes dead nodes that own nothing any more. Owned rows are few, and have an index of their own.
delete from jobwright_node
where dead_at is not null and not exists (select 1 from jobwright_job where lock_owner = jobwright_node.id)
returning id

-- name: node_heartbeats
-- The nodes that should be alive; their files show whether they are. The start of a node tells whether it was registered in this very file.
select id, lease, dead_at is not null as dead, started_at from jobwright_node order by id

-- name: declare_dead
-- Declares a node dead whose file was checked again once the write lock was held.
update jobwright_node set dead_at = :now where id = :node and dead_at is null

-- name: lost_terminating
-- Removes handlers of cancelled jobs whose node is dead or unknown, because nothing else can report their end.
delete from jobwright_terminating_handler
where node is not null and node not in (select id from jobwright_node where dead_at is null)

-- name: lost_check
-- Runs on a reader. A dead node is work even if it owns nothing: it has to be forgotten.
select exists (select 1 from jobwright_node where dead_at is not null)
    or exists (
        select 1 from jobwright_job indexed by jobwright_job_owned
        where lock_owner is not null and lock_owner not in (select id from jobwright_node)
    )
    or exists (select 1 from jobwright_terminating_handler where node is not null and node not in (select id from jobwright_node))

-- name: lost_rows
-- Owned rows without a live node; an owner may be unknown, if its row was removed by hand. Owned rows are few, and waiting ones may be a
-- million. The index is named because otherwise the order would make SQLite scan the table.
select job.seq, job.queue, job.attempt, job.max_attempts, job.errors, job.visible_at, job.admitted, job.lock_owner, node.name,
       coalesce(node.evicted, 0) as evicted
from jobwright_job as job indexed by jobwright_job_owned left join jobwright_node as node on node.id = job.lock_owner
where job.lock_owner is not null and (node.id is null or node.dead_at is not null)
order by job.seq
limit :limit
