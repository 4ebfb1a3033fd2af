-- name: history
-- Newest first, through the index on the end, or on the job. The clause contains only the conditions that are set.
select job_id as id, seq, kind, queue, outcome, attempt, created_at, started_at, ended_at, node, tenant, error
from jobwright_history
where {filter}
order by ended_at desc, seq desc
limit :limit

-- name: remember
-- Runs before the row changes, in the same transaction. Only jobs that were claimed or handed out have a start; an external worker counts as node 0.
insert into jobwright_history (job_id, seq, kind, queue, outcome, attempt, created_at, started_at, ended_at, node, tenant, error)
select id, seq, kind, queue, :outcome, attempt, created_at, claimed_at, :now, case when state = 'external' then 0 else lock_owner end,
       options ->> '$.tenant', :why
from jobwright_job where {filter}

-- name: prune_history
-- A batch at a time, oldest first.
delete from jobwright_history
where rowid in (select rowid from jobwright_history where ended_at < :before order by ended_at, seq limit :limit)

-- name: prune_audit
-- A batch at a time, oldest first.
delete from jobwright_audit
where id in (select id from jobwright_audit where at < :before order by at limit :limit)

-- name: prune_dead_letters
-- A batch at a time, oldest first. Triggers release what they held.
delete from jobwright_job
where seq in (select seq from jobwright_job where dead_at < :before order by dead_at limit :limit)

-- name: keep_result
-- If a job was sent again under its old id, its new result replaces the old one.
insert or replace into jobwright_result (job_id, kind, payload, created_at, expires_at)
values (:id, :kind, :payload, :now, :expires)

-- name: result
-- An expired result is not returned, whether it was pruned or not.
select kind, payload, created_at, expires_at from jobwright_result where job_id = :id and expires_at > :now

-- name: prune_results
-- As `prune_history`.
delete from jobwright_result
where job_id in (select job_id from jobwright_result where expires_at <= :now order by expires_at limit :limit)
