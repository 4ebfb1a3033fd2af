-- name: complete
-- The fence: an outcome of an older claim finds no row.
delete from jobwright_job where id = :id and version = :version and lock_owner = :node

-- name: taken_row
-- The columns that an outcome needs, if the claim of a node or the hand-out (:owner is null) is still current.
select seq, attempt, max_attempts, errors, visible_at, admitted
from jobwright_job
where id = :id and version = :version and state in ('running', 'external') and lock_owner is :owner

-- name: defer
-- Makes a job a timer. By seq, as the statements below: the fence was checked in the same transaction. The token of a hand-out is longer than the
-- number of a claim. 31 bits of it stay, so that earlier deliveries no longer match.
update jobwright_job
set state = 'timer', due_at = :due_at, attempt = :attempt, errors = :errors, version = version & 2147483647,
    lock_owner = null, claimed_at = null, visible_at = null, lease_until = null, lease = null
where seq = :seq

-- name: release
-- Makes a job wait again. It keeps what it holds. A suspect (:blocked_on) waits to be claimed alone. The version of a claim stays: without an owner no
-- outcome is accepted, and the next claim raises it.
update jobwright_job
set state = case when :blocked_on is null then 'waiting' else 'blocked' end, blocked_on = :blocked_on, attempt = :attempt, errors = :errors,
    version = version & 2147483647, lock_owner = null, claimed_at = null, visible_at = null, lease_until = null, lease = null
where seq = :seq

-- name: bury
-- Makes a job a dead letter.
update jobwright_job
set state = 'dead', dead_at = :now, reason = :reason, errors = :errors, version = version & 2147483647,
    lock_owner = null, claimed_at = null, visible_at = null, lease_until = null, lease = null
where seq = :seq

-- name: take_back
-- Follows `defer` or `bury` if the job was admitted: a trigger takes back what it held.
update jobwright_job set admitted = 0 where seq = :seq

-- name: remove
-- Removes a job.
delete from jobwright_job where seq = :seq
