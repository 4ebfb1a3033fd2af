-- Owned rows without a live node. An owner may be unknown, if someone removed it by hand.
select job.seq, job.attempt, job.max_attempts, job.errors, job.lock_owner, node.name, node.dead_at < node.expires_at
from jobwright_job job left join jobwright_node node on node.id = job.lock_owner
where job.lock_owner is not null and (node.id is null or node.dead_at is not null)
order by job.seq
limit :limit
