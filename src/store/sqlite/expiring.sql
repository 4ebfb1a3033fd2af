-- name: next_expiry
-- One index step: whether anything has expired, and when to check again. Jobs that run, are suspended or dead do not expire.
select min(options ->> 'expires') from jobwright_job where {may_expire}

-- name: expired
-- A part of two statements of one transaction: the jobs that expire now, the longest expired first.
seq in (select seq from jobwright_job where {may_expire} and options ->> 'expires' <= :now order by options ->> 'expires' limit :limit)

-- name: expire
-- Makes them dead letters. Triggers release what they held.
update jobwright_job
set state = 'dead', dead_at = :now, reason = :reason, due_at = null, blocked_on = null, share = '', visible_at = null, admitted = 0
where {expired}

-- name: prune_unique
-- Removes keys whose period is over. Other keys go with their jobs.
delete from jobwright_unique_key
where key in (select key from jobwright_unique_key where expires_at is not null and expires_at <= :now limit :limit)

-- name: keys_are_over
-- Runs on a reader, so that a check that finds nothing takes no write lock.
select exists (select 1 from jobwright_unique_key where expires_at is not null and expires_at <= :now)
