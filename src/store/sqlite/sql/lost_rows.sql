-- Owned rows without a live node; an owner may be unknown, if its row was removed by hand. Owned rows are few, and waiting ones may be a
-- million. The index is named because otherwise the order would make SQLite scan the table.
select job.seq, job.queue, job.attempt, job.max_attempts, job.errors, job.visible_at, job.lock_owner, node.name,
       coalesce(node.evicted, 0) as evicted
from jobwright_job as job indexed by jobwright_job_owned left join jobwright_node as node on node.id = job.lock_owner
where job.lock_owner is not null and (node.id is null or node.dead_at is not null)
order by job.seq
limit :limit
