-- name: orphaned_permits
-- Permits without a holder, at most :limit. Triggers release a permit with its holder, but not where they were switched off, or a table was restored
-- alone.
select s.job_id, s.key
from jobwright_permit s
where {orphaned}
limit :limit

-- name: reclaim_permit
-- Takes back a permit.
delete from jobwright_permit where job_id = :job_id and key = :key

-- name: stuck_keys
-- Keys that jobs are blocked on although no permit and no rule holds them up, and that nothing will unblock. Suspects (`suspects`) wait
-- for an idle node.
select b.blocked_on
{stuck}
limit :limit
